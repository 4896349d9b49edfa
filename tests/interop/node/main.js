'use strict';
// What a team does with the gRPC client for Node.js, one scenario after the other.
//
// Arguments, output and environment are those of java/GrpcScenarios.java.

const { setTimeout: sleep } = require('timers/promises');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const {
  FilterType, TransactionResolution,
} = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const COUNT = 20;
const GROUPS = 4;
const HOURS = 20;
const ATTEMPTS = 17; // a group's usual retryMaxTimes, and the first
const DELAY_MS = 1500;
const WAIT_MS = 40_000;
const TWICE_MS = 300; // what would come twice comes within this time
const HIDDEN_MS = 30_000;
const SOON_MS = 1000;
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

const [endpoints, prefix, ...names] = process.argv.slice(2);
let name = '';
let missing = 0;
let account = { endpoints, namespace: '', logger: SILENT };
let producer;

const say = (kind, ...words) => console.log([kind, name, ...words].join('\t'));
const topic = () => `${prefix}_${name}`;
const group = () => `${topic()}_group`;
const key = view => view.body.toString();
const yesOrNo = n => (n % 2 === 0 ? `yes${n}` : `no${n}`);
const numbers = [...Array(COUNT).keys()];
const message = (text, more = {}) => ({ topic: topic(), tag: 'A', keys: [text], body: Buffer.from(text), ...more });

async function send(made) {
  const receipt = await producer.send(made);
  say('SENT', made.body.toString());
  return receipt;
}

async function sendAll(make) {
  for (const n of numbers) await send(make(n));
}

const sync = () => sendAll(n => message(`k${n}`));
const async_ = () => Promise.all(numbers.map(n => send(message(`k${n}`))));
const grouped = () => sendAll(n => message(`k${n}`, { messageGroup: String(n % GROUPS) }));
const tagged = () => sendAll(n => message(yesOrNo(n), { tag: ['A', 'B', 'C', 'B'][n % 4] }));
const priced = () => sendAll(n => message(yesOrNo(n), {
  properties: new Map([['region', n % 2 === 0 ? 'north' : 'east'], ['amount', String(n)]]),
}));

// --- consuming -----------------------------------------------------------------------------------

function take(view) {
  say('RECEIVED', key(view), view.messageGroup || '0');
  missing -= 1;
  return ConsumeResult.SUCCESS;
}

async function pushing(wanted, consume, act) {
  const consumer = new PushConsumer({
    ...account,
    consumerGroup: group(),
    subscriptions: new Map([[topic(), wanted]]),
    messageListener: { consume },
  });
  await consumer.startup();
  try {
    await act();
  } finally {
    await consumer.shutdown();
  }
}

async function consumed(count, sending, wanted = FilterExpression.SUB_ALL, consume = take) {
  missing = count;
  await pushing(wanted, consume, async () => {
    await sending();
    const end = Date.now() + WAIT_MS;
    while (missing > 0 && Date.now() < end) await sleep(20);
    if (missing > 0) say('FAILED', `${missing} did not come in ${WAIT_MS} ms`);
    await sleep(TWICE_MS);
  });
}

async function received(count, sending, judge = () => true, from = topic(), readers = group()) {
  const consumer = new SimpleConsumer({
    ...account,
    consumerGroup: readers,
    subscriptions: new Map([[from, FilterExpression.SUB_ALL]]),
    awaitDuration: 5000,
  });
  await consumer.startup();
  try {
    await sending();
    const end = Date.now() + WAIT_MS;
    let left = count;
    while (left > 0 && Date.now() < end) {
      for (const view of await consumer.receive(10, HIDDEN_MS)) {
        if (await judge(view, consumer)) {
          say('RECEIVED', key(view), '0');
          await consumer.ack(view);
          left -= 1;
        }
      }
    }
    if (left > 0) say('FAILED', `${left} did not come in ${WAIT_MS} ms`);
  } finally {
    await consumer.shutdown();
  }
}

// --- scenarios -----------------------------------------------------------------------------------

/** Who waits for dead letters gets what nobody takes. */
const deadLetters = sending => pushing(FilterExpression.SUB_ALL, () => ConsumeResult.FAILURE,
  () => received(COUNT, sending, () => true, `%DLQ%${group()}`, `${group()}_readers`));

/** Every fourth is left open: the broker asks. */
async function transaction() {
  for (const n of numbers) {
    const begun = producer.beginTransaction();
    await producer.send(message(yesOrNo(n)), begun);
    say('SENT', yesOrNo(n));
    if (n % 4 === 1) await begun.rollback();
    if (n % 4 === 2) await begun.commit();
  }
}

async function timers() {
  const due = Date.now() + DELAY_MS;
  await received(COUNT, () => sendAll(n => message(`k${n}`, { deliveryTimestamp: new Date(due) })), view => {
    if (Date.now() < due) say('FAILED', `${key(view)} came early`);
    return true;
  });
}

async function recalled() {
  for (const n of numbers) {
    const due = new Date(Date.now() + 4 * DELAY_MS);
    const receipt = await send(message(yesOrNo(n), { deliveryTimestamp: due }));
    if (n % 2 === 1) await producer.recallMessage(topic(), receipt.recallHandle);
  }
}

/** What is seen first is hidden for a second only, and comes again: then it is taken. */
async function invisibleTime() {
  const seen = new Set();
  await received(COUNT, sync, async (view, consumer) => {
    if (seen.has(key(view))) return true;
    seen.add(key(view));
    await consumer.changeInvisibleDuration(view, SOON_MS);
    return false;
  });
}

async function secured() {
  const plain = account;
  account = { ...plain, endpoints: process.env.TLS_ENDPOINTS, sslEnabled: true };
  try {
    await withProducer(() => consumed(COUNT, sync));
  } finally {
    account = plain;
  }
}

/** The broker's usual steps (1 s, 5 s, 10 s ...) are not known to this client: what failed comes back at once. */
async function allAttempts() {
  const attempts = [];
  const failing = view => {
    attempts.push(view.deliveryAttempt);
    return ConsumeResult.FAILURE;
  };
  await pushing(FilterExpression.SUB_ALL, failing, () => received(1, () => send(message('k0')), () => true,
    `%DLQ%${group()}`, `${group()}_readers`));
  const wanted = [...Array(ATTEMPTS).keys()].map(n => n + 1);
  if (String(attempts) !== String(wanted)) say('FAILED', `attempts ${attempts}`);
}

/** What is signed with another secret is refused; this client says only that it got no routes. */
async function signed() {
  const plain = account;
  const accessKey = process.env.ACCESS_KEY;
  const of = accessSecret => ({
    ...plain, endpoints: process.env.SIGNED_ENDPOINTS, sessionCredentials: { accessKey, accessSecret },
  });
  try {
    account = of(process.env.SECRET_KEY);
    await withProducer(() => consumed(COUNT, sync));
    account = of('another');
    const refused = withProducer(() => 'another secret is taken, too').catch(error => String(error));
    const why = await Promise.race([refused, sleep(WAIT_MS, 'another secret is not refused')]);
    if (!why.includes('Failed to fetch topic routes')) say('FAILED', why);
  } finally {
    account = plain;
  }
}

/** The broker goes and comes back; nobody is told, and all go on. */
async function restarted() {
  for (const n of numbers) {
    if (n === COUNT / 2) {
      const end = Date.now() + WAIT_MS;
      while (missing > COUNT / 2 && Date.now() < end) await sleep(20);
      await sleep(TWICE_MS);
      await ask('restart', {});
    }
    await insist(message(`k${n}`));
  }
}

/** Send until it is taken: the first attempts may find no broker. */
async function insist(made) {
  for (const end = Date.now() + WAIT_MS; ; await sleep(20)) {
    try {
      await send(made);
      return;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
  }
}

/** Most of a day passes in a moment, and nothing comes; then one more hour does. */
async function days() {
  const due = new Date(Date.now() + HOURS * 3_600_000);
  await sendAll(n => message(`k${n}`, { deliveryTimestamp: due }));
  await advance(HOURS - 1);
  await sleep(TWICE_MS);
  if (missing < COUNT) say('FAILED', `${COUNT - missing} came an hour early`);
  await advance(1);
}

const advance = hours => ask('clock/advance', { hours });

async function ask(what, fields) {
  const answer = await fetch(`${process.env.CONTROL}/${what}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(fields),
  });
  if (!answer.ok) throw new Error(await answer.text());
}

async function withProducer(act) {
  const checker = {
    check: async view => TransactionResolution[key(view).startsWith('yes') ? 'COMMIT' : 'ROLLBACK'],
  };
  producer = new Producer({ ...account, topics: [topic()], checker });
  await producer.startup();
  try {
    await act();
  } finally {
    await producer.shutdown();
  }
}

const northern = new FilterExpression("region = 'north' AND amount BETWEEN 0 AND 99", FilterType.SQL);
const takeSecond = view => (view.deliveryAttempt > 1 ? take(view) : ConsumeResult.FAILURE);
const scenarios = {
  sync: () => consumed(COUNT, sync),
  async: () => consumed(COUNT, async_),
  orderly: () => consumed(COUNT, grouped),
  tags: () => consumed(COUNT / 2, tagged, new FilterExpression('A || C')),
  sql: () => consumed(COUNT / 2, priced, northern),
  retry: () => consumed(COUNT, sync, FilterExpression.SUB_ALL, takeSecond),
  dead_letters: () => deadLetters(grouped),
  given_up: () => deadLetters(sync),
  transaction: () => consumed(COUNT / 2, transaction),
  timers,
  recall: () => consumed(COUNT / 2, recalled),
  pop: () => received(COUNT, sync),
  invisible_time: invisibleTime,
  all_attempts: allAttempts,
  days: () => consumed(COUNT, days),
  restart: () => consumed(COUNT, restarted),
};
const withOwnProducers = { signed, tls: secured };

async function main() {
  for (name of names) {
    try {
      await (withOwnProducers[name] || (() => withProducer(scenarios[name])))();
    } catch (error) {
      say('FAILED', String(error).replace(/\s+/g, ' '));
    }
    say('DONE', '');
  }
  process.exit(0);
}

main();

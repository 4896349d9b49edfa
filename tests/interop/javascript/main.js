'use strict';
// What a team does with RocketMQ, one scenario after the other, with Aliyun's client in JavaScript.
//
// Arguments and output are those of java/Scenarios.java.

const httpclient = require('urllib');
const { Consumer, Message, Producer } = require('ali-ons');
const { setTimeout: sleep } = require('timers/promises');

const COUNT = 20;
const WAIT_MS = 90_000; // this client looks for topics that are new every 30 s
const TWICE_MS = 300; // what would come twice comes within this time
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

const [namesrv, prefix, ...names] = process.argv.slice(2);
const account = { httpclient, nameSrv: namesrv, accessKeyId: 'key', accessKeySecret: 'secret', logger: SILENT };
let name = '';
let missing = 0;
let producer;

const say = (kind, ...words) => console.log([kind, name, ...words].join('\t'));
const topic = () => `${prefix}_${name}`;
const yesOrNo = n => (n % 2 === 0 ? `yes${n}` : `no${n}`);
const numbers = [...Array(COUNT).keys()];

function message(key, tag = 'A') {
  const made = new Message(topic(), tag, key);
  made.keys = [key];
  return made;
}

async function send(made) {
  const result = await producer.send(made);
  say(result.sendStatus === 'SEND_OK' ? 'SENT' : 'FAILED', made.keys);
}

async function sync() {
  for (const n of numbers) await send(message(`k${n}`));
}

async function async_() {
  await Promise.all(numbers.map(n => send(message(`k${n}`))));
}

function received(msg, key = msg.keys) {
  say('RECEIVED', key, String(msg.queueId));
  missing -= 1;
}

async function consumer(what, take, options = {}) {
  const made = new Consumer({
    ...account,
    consumerGroup: `${topic()}_group`,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    ...options,
  });
  made.on('error', () => {});
  made.subscribe(topic(), what, take);
  await made.ready();
  return made;
}

async function awaited(made) {
  const end = Date.now() + WAIT_MS;
  while (missing > 0 && Date.now() < end) await sleep(20);
  if (missing > 0) say('FAILED', `${missing} did not come in ${WAIT_MS} ms`);
  await sleep(TWICE_MS);
  await Promise.all(made.map(one => one.close()));
}

async function consumed(count, what, sending, take = async msg => received(msg)) {
  missing = count;
  const made = await consumer(what, take);
  await sending();
  await awaited([made]);
}

async function later(set) {
  let earliest = Infinity;
  await consumed(COUNT, '*', async () => {
    earliest = Date.now() + 1000;
    for (const n of numbers) {
      const made = message(`k${n}`);
      set(made);
      await send(made);
    }
  }, async msg => {
    if (Date.now() < earliest) say('FAILED', `${msg.keys} came early`);
    received(msg);
  });
}

const scenarios = {
  sync: () => consumed(COUNT, '*', sync),
  async: () => consumed(COUNT, '*', async_),
  tags: () => consumed(COUNT / 2, 'A || C', async () => {
    for (const n of numbers) await send(message(yesOrNo(n), ['A', 'B', 'C', 'B'][n % 4]));
  }),
  sql: () => consumed(COUNT / 2, {
    expressionType: 'SQL92',
    subString: "(amount BETWEEN 0 AND 9 AND region IN ('north', 'south')) OR big IS NOT NULL",
  }, async () => {
    for (const n of numbers) {
      const made = message(yesOrNo(n));
      Object.assign(made.properties, { region: n % 2 === 0 ? 'north' : 'east', amount: String(n) });
      if (n % 2 === 0 && n > 9) made.properties.big = 'true';
      await send(made);
    }
  }),
  async broadcast() {
    missing = 2 * COUNT;
    const made = [];
    for (const instance of ['1', '2']) {
      const take = async msg => received(msg, `${msg.keys}@${instance}`);
      made.push(await consumer('*', take, { isBroadcast: true, instanceName: name + instance }));
    }
    await sync();
    await awaited(made);
  },
  retry: () => consumed(COUNT, '*', sync, async msg => {
    if (msg.reconsumeTimes === 0) throw new Error('once more');
    received(msg);
  }),
  levels: () => later(made => { made.delayTimeLevel = 1; }),
  timers: () => later(made => made.setStartDeliverTime(Date.now() + 1500)),
};

async function main() {
  producer = new Producer({ ...account, producerGroup: `${prefix}_producer` });
  await producer.ready();
  for (name of names) {
    try {
      await scenarios[name]();
    } catch (error) {
      say('FAILED', String(error).replace(/\s+/g, ' '));
    }
    say('DONE', '');
  }
  process.exit(0);
}

main();

// What a team does with RocketMQ, one scenario after the other, with the Go client.
//
// Arguments and output are those of java/Scenarios.java.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	count = 20
	wait  = 60 * time.Second       // a real broker tells of a new %RETRY% topic when routes are asked for again
	twice = 300 * time.Millisecond // what would come twice comes within this time
	known = 2 * time.Second        // a producer's first heartbeat leaves a second after its start
)

type taker func(ctx context.Context, message *primitive.MessageExt) bool

type scenarios struct {
	namesrv  primitive.NamesrvAddr
	prefix   string
	name     string
	producer rocketmq.Producer
	output   sync.Mutex
	missing  chan struct{}
}

func main() {
	rlog.SetLogLevel("fatal")
	s := &scenarios{namesrv: primitive.NamesrvAddr{os.Args[1]}, prefix: os.Args[2]}
	all := map[string]func(){
		"sync":          func() { s.consumed(count, "*", s.take, s.sync) },
		"async":         func() { s.consumed(count, "*", s.take, s.async) },
		"oneway":        func() { s.consumed(count, "*", s.take, s.oneway) },
		"batch":         func() { s.consumed(count, "*", s.take, s.batch) },
		"orderly":       s.orderly,
		"tags":          func() { s.consumed(count/2, "A || C", s.take, s.tagged) },
		"sql":           s.sql,
		"broadcast":     s.broadcast,
		"pull":          s.pull,
		"request_reply": s.requestReply,
		"retry":         s.retry,
		"dead_letters":  s.deadLetters,
		"transaction":   s.transaction,
		"levels":        s.levels,
	}
	s.producer = must(rocketmq.NewProducer(
		producer.WithNameServer(s.namesrv),
		producer.WithGroupName(s.prefix+"_producer"),
		producer.WithInstanceName("producer"),
	))
	check(s.producer.Start())
	for _, name := range os.Args[3:] {
		s.name = name
		s.guarded(all[name])
		s.say("DONE", "")
	}
	_ = s.producer.Shutdown()
}

func (s *scenarios) guarded(act func()) {
	defer func() {
		if trouble := recover(); trouble != nil {
			s.say("FAILED", strings.ReplaceAll(fmt.Sprint(trouble), "\n", " "))
		}
	}()
	act()
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *scenarios) say(kind string, words ...string) {
	s.output.Lock()
	defer s.output.Unlock()
	fmt.Println(strings.Join(append([]string{kind, s.name}, words...), "\t"))
}

func (s *scenarios) topic() string { return s.prefix + "_" + s.name }

func (s *scenarios) message(key string) *primitive.Message {
	return primitive.NewMessage(s.topic(), []byte(key)).WithTag("A").WithKeys([]string{key})
}

// send gives the queue to which all of them went.
func (s *scenarios) send(messages ...*primitive.Message) *primitive.MessageQueue {
	result := must(s.producer.SendSync(context.Background(), messages...))
	for _, message := range messages {
		s.sent(message.GetKeys(), result)
	}
	return result.MessageQueue
}

func (s *scenarios) sent(key string, result *primitive.SendResult) {
	if result.Status == primitive.SendOK {
		s.say("SENT", key)
	} else {
		s.say("FAILED", key)
	}
}

// --- consuming ---------------------------------------------------------------------------------

func (s *scenarios) take(_ context.Context, message *primitive.MessageExt) bool {
	s.received(message, message.GetKeys())
	return true
}

func (s *scenarios) received(message *primitive.MessageExt, key string) {
	s.say("RECEIVED", key, fmt.Sprint(message.Queue.QueueId))
	s.missing <- struct{}{}
}

func (s *scenarios) await(missing int) {
	end := time.After(wait)
	for ; missing > 0; missing-- {
		select {
		case <-s.missing:
		case <-end:
			s.say("FAILED", fmt.Sprintf("%d did not come in %s", missing, wait))
			return
		}
	}
	time.Sleep(twice)
}

func (s *scenarios) consumer(
	selector consumer.MessageSelector, take taker, options ...consumer.Option,
) rocketmq.PushConsumer {
	options = append([]consumer.Option{
		consumer.WithNameServer(s.namesrv),
		consumer.WithGroupName(s.topic() + "_group"),
		consumer.WithInstance(s.name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, options...)
	made := must(rocketmq.NewPushConsumer(options...))
	check(made.Subscribe(s.topic(), selector,
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			all := true
			for _, message := range messages {
				all = take(ctx, message) && all
			}
			if all {
				return consumer.ConsumeSuccess, nil
			}
			return consumer.ConsumeRetryLater, nil
		}))
	check(made.Start())
	return made
}

func (s *scenarios) consumed(number int, tags string, take taker, sending func(), options ...consumer.Option) {
	s.missing = make(chan struct{}, 10*count)
	made := s.consumer(consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, take, options...)
	defer func() { _ = made.Shutdown() }()
	sending()
	s.await(number)
}

// --- sending -----------------------------------------------------------------------------------

func (s *scenarios) sync() {
	for n := 0; n < count; n++ {
		s.send(s.message(fmt.Sprint("k", n)))
	}
}

func (s *scenarios) async() {
	for n := 0; n < count; n++ {
		key := fmt.Sprint("k", n)
		check(s.producer.SendAsync(context.Background(),
			func(_ context.Context, result *primitive.SendResult, err error) {
				if err != nil {
					s.say("FAILED", err.Error())
				} else {
					s.sent(key, result)
				}
			}, s.message(key)))
	}
}

func (s *scenarios) oneway() {
	for n := 0; n < count; n++ {
		check(s.producer.SendOneWay(context.Background(), s.message(fmt.Sprint("k", n))))
		s.say("SENT", fmt.Sprint("k", n))
	}
}

func (s *scenarios) batch() {
	var messages []*primitive.Message
	for n := 0; n < count; n++ {
		messages = append(messages, s.message(fmt.Sprint("k", n)))
	}
	s.send(messages...)
}

func yesOrNo(n int) string {
	if n%2 == 0 {
		return fmt.Sprint("yes", n)
	}
	return fmt.Sprint("no", n)
}

func (s *scenarios) tagged() {
	for n := 0; n < count; n++ {
		s.send(s.message(yesOrNo(n)).WithTag([]string{"A", "B", "C", "B"}[n%4]))
	}
}

// --- scenarios ---------------------------------------------------------------------------------

func (s *scenarios) orderly() {
	byKey := must(rocketmq.NewProducer(
		producer.WithNameServer(s.namesrv),
		producer.WithGroupName(s.prefix+"_orderly_producer"),
		producer.WithInstanceName("orderly"),
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
	))
	check(byKey.Start())
	defer func() { _ = byKey.Shutdown() }()
	s.consumed(count, "*", s.take, func() {
		for n := 0; n < count; n++ {
			message := s.message(fmt.Sprint("k", n)).WithShardingKey(fmt.Sprint(n % 4))
			s.sent(message.GetKeys(), must(byKey.SendSync(context.Background(), message)))
		}
	}, consumer.WithConsumerOrder(true))
}

func (s *scenarios) sql() {
	s.missing = make(chan struct{}, 10*count)
	expression := "(amount BETWEEN 0 AND 9 AND region IN ('north', 'south')) OR big IS NOT NULL"
	made := s.consumer(consumer.MessageSelector{Type: consumer.SQL92, Expression: expression}, s.take)
	defer func() { _ = made.Shutdown() }()
	for n := 0; n < count; n++ {
		message := s.message(yesOrNo(n))
		message.WithProperty("region", []string{"north", "east"}[n%2])
		message.WithProperty("amount", fmt.Sprint(n))
		if n%2 == 0 && n > 9 {
			message.WithProperty("big", "true")
		}
		s.send(message)
	}
	s.await(count / 2)
}

func (s *scenarios) broadcast() {
	s.missing = make(chan struct{}, 10*count)
	for _, instance := range []string{"1", "2"} {
		made := s.consumer(consumer.MessageSelector{Type: consumer.TAG, Expression: "*"},
			func(_ context.Context, message *primitive.MessageExt) bool {
				s.received(message, message.GetKeys()+"@"+instance)
				return true
			},
			consumer.WithConsumerModel(consumer.BroadCasting), consumer.WithInstance(s.name+instance))
		defer func() { _ = made.Shutdown() }()
	}
	s.sync()
	s.await(2 * count)
}

func (s *scenarios) puller() rocketmq.PullConsumer {
	made := must(rocketmq.NewPullConsumer(
		consumer.WithNameServer(s.namesrv),
		consumer.WithGroupName(s.topic()+"_pullers"),
		consumer.WithInstance(s.name+"_pullers"),
	))
	check(made.Subscribe(s.topic(), consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	check(made.Start())
	return made
}

// pulled takes what a queue has from an offset on, and gives the next one.
func (s *scenarios) pulled(made rocketmq.PullConsumer, queue *primitive.MessageQueue, at int64) int64 {
	for {
		result := must(made.PullFrom(context.Background(), queue, at, 3))
		for _, message := range result.GetMessageExts() {
			s.say("RECEIVED", message.GetKeys(), fmt.Sprint(queue.QueueId))
		}
		at = result.NextBeginOffset
		if at >= result.MaxOffset {
			return at
		}
	}
}

func (s *scenarios) pull() {
	queues := map[int]*primitive.MessageQueue{}
	for n := 0; n < count; n++ {
		queue := s.send(s.message(fmt.Sprint("k", n)))
		queues[queue.QueueId] = queue
	}
	made := s.puller()
	defer func() { _ = made.Shutdown() }()
	for _, queue := range queues {
		s.pulled(made, queue, 0)
	}
}

func (s *scenarios) requestReply() {
	answers := must(rocketmq.NewProducer(
		producer.WithNameServer(s.namesrv),
		producer.WithGroupName(s.prefix+"_answers"),
		producer.WithInstanceName("answers"),
	))
	check(answers.Start())
	defer func() { _ = answers.Shutdown() }()
	made := s.consumer(consumer.MessageSelector{Type: consumer.TAG, Expression: "*"},
		func(ctx context.Context, message *primitive.MessageExt) bool {
			reply := must(consumer.CreateReplyMessage(message, nil))
			reply.Body = []byte("re:" + string(message.Body))
			must(answers.SendSync(ctx, reply))
			return true
		})
	defer func() { _ = made.Shutdown() }()
	time.Sleep(known) // until then no broker knows whom to push a reply to
	for n := 0; n < count; n++ {
		key := fmt.Sprint("k", n)
		s.say("SENT", key)
		reply := must(s.producer.Request(context.Background(), 20*time.Second, s.message(key)))
		if string(reply.Body) == "re:"+key {
			s.say("RECEIVED", key, "0")
		}
	}
}

func (s *scenarios) retry() {
	s.consumed(count, "*", func(ctx context.Context, message *primitive.MessageExt) bool {
		if message.ReconsumeTimes == 0 {
			if concurrently, ok := primitive.GetConcurrentlyCtx(ctx); ok {
				concurrently.DelayLevelWhenNextConsume = 1
			}
			return false
		}
		return s.take(ctx, message)
	}, s.sync)
}

// deadLetters shows what lies in %DLQ% after each message was refused once.
func (s *scenarios) deadLetters() {
	var seen sync.Map
	dead := &primitive.MessageQueue{Topic: "%DLQ%" + s.topic() + "_group"}
	s.consumed(count, "*", func(_ context.Context, message *primitive.MessageExt) bool {
		if _, again := seen.LoadOrStore(message.GetKeys(), true); again {
			s.say("FAILED", message.GetKeys()+" came again")
		}
		s.missing <- struct{}{}
		return false
	}, func() {
		for n := 0; n < count; n++ {
			dead.BrokerName = s.send(s.message(fmt.Sprint("k", n))).BrokerName
		}
	}, consumer.WithMaxReconsumeTimes(0))
	made := s.puller()
	defer func() { _ = made.Shutdown() }()
	for at, end := int64(0), time.Now().Add(wait); at < count && time.Now().Before(end); {
		at = s.pulled(made, dead, at)
		time.Sleep(twice)
	}
}

type decides struct{}

func (decides) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	if strings.HasPrefix(message.GetKeys(), "yes") {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (decides) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState {
	return primitive.UnknowState
}

func (s *scenarios) transaction() {
	transactions := must(rocketmq.NewTransactionProducer(decides{},
		producer.WithNameServer(s.namesrv),
		producer.WithGroupName(s.prefix+"_transactions"),
		producer.WithInstanceName("transactions"),
	))
	check(transactions.Start())
	defer func() { _ = transactions.Shutdown() }()
	s.consumed(count/2, "*", s.take, func() {
		for n := 0; n < count; n++ {
			message := s.message(yesOrNo(n))
			result := must(transactions.SendMessageInTransaction(context.Background(), message))
			s.sent(message.GetKeys(), result.SendResult)
		}
	})
}

func (s *scenarios) levels() {
	var earliest time.Time
	s.consumed(count, "*", func(ctx context.Context, message *primitive.MessageExt) bool {
		if time.Now().Before(earliest) {
			s.say("FAILED", message.GetKeys()+" came early")
		}
		return s.take(ctx, message)
	}, func() {
		earliest = time.Now().Add(time.Second)
		for n := 0; n < count; n++ {
			s.send(s.message(fmt.Sprint("k", n)).WithDelayTimeLevel(1))
		}
	})
}

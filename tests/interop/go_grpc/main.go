// What a team does with the gRPC client in Go, one scenario after the other.
//
// Arguments, output and environment are those of java/GrpcScenarios.java.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const (
	count  = 20
	groups = 4
	hours  = 20
	delay  = 1500 * time.Millisecond
	wait   = 40 * time.Second
	twice  = 300 * time.Millisecond // what would come twice comes within this time
	hidden = 30 * time.Second
	soon   = time.Second
)

type taker func(view *rmq.MessageView) rmq.ConsumerResult

type scenarios struct {
	endpoints string
	account   credentials.SessionCredentials
	prefix    string
	name      string
	producer  rmq.Producer
	output    sync.Mutex
	missing   chan struct{}
	stopping  sync.WaitGroup
}

func main() {
	s := &scenarios{endpoints: os.Args[1], prefix: os.Args[2]}
	all := map[string]func(){
		"sync":           func() { s.consumed(count, rmq.SUB_ALL, s.take, s.sync) },
		"async":          func() { s.consumed(count, rmq.SUB_ALL, s.take, s.async) },
		"orderly":        func() { s.consumed(count, rmq.SUB_ALL, s.take, s.grouped) },
		"tags":           func() { s.consumed(count/2, rmq.NewFilterExpression("A || C"), s.take, s.tagged) },
		"sql":            func() { s.consumed(count/2, northern, s.take, s.priced) },
		"retry":          func() { s.consumed(count, rmq.SUB_ALL, s.takeSecond, s.sync) },
		"dead_letters":   func() { s.deadLetters(s.grouped) },
		"given_up":       func() { s.deadLetters(s.sync) },
		"transaction":    func() { s.consumed(count/2, rmq.SUB_ALL, s.take, s.transaction) },
		"timers":         s.timers,
		"recall":         func() { s.consumed(count/2, rmq.SUB_ALL, s.take, s.recalled) },
		"pop":            s.pop,
		"invisible_time": s.invisibleTime,
		"signed":         s.signed,
		"tls":            s.secured,
		"days":           func() { s.consumed(count, rmq.SUB_ALL, s.take, s.days) },
		"restart":        func() { s.consumed(count, rmq.SUB_ALL, s.take, s.restarted) },
	}
	rmq.EnableSsl = false
	stop := s.produce(os.Args[3:]...)
	for _, name := range os.Args[3:] {
		s.name = name
		s.guarded(all[name])
		s.say("DONE", "")
	}
	s.stopping.Wait()
	stop()
}

var northern = rmq.NewFilterExpressionWithType("region = 'north' AND amount BETWEEN 0 AND 99", rmq.SQL92)

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

func (s *scenarios) group() string { return s.topic() + "_group" }

func (s *scenarios) config(group string) *rmq.Config {
	return &rmq.Config{Endpoint: s.endpoints, ConsumerGroup: group, Credentials: &s.account}
}

// produce starts a producer; one that knows no topic at its start never starts.
func (s *scenarios) produce(names ...string) func() {
	var topics []string
	for _, name := range names {
		topics = append(topics, s.prefix+"_"+name)
	}
	checker := &rmq.TransactionChecker{Check: func(view *rmq.MessageView) rmq.TransactionResolution {
		if strings.HasPrefix(key(view), "yes") {
			return rmq.COMMIT
		}
		return rmq.ROLLBACK
	}}
	made := must(rmq.NewProducer(s.config(""), rmq.WithTopics(topics...), rmq.WithTransactionChecker(checker)))
	check(made.Start())
	former := s.producer
	s.producer = made
	return func() {
		_ = s.producer.GracefulStop()
		s.producer = former
	}
}

func (s *scenarios) message(key string) *rmq.Message {
	made := &rmq.Message{Topic: s.topic(), Body: []byte(key)}
	made.SetTag("A")
	made.SetKeys(key)
	return made
}

func key(view *rmq.MessageView) string { return string(view.GetBody()) }

func yesOrNo(n int) string {
	if n%2 == 0 {
		return fmt.Sprint("yes", n)
	}
	return fmt.Sprint("no", n)
}

func (s *scenarios) send(message *rmq.Message) *rmq.SendReceipt {
	receipts := must(s.producer.Send(context.Background(), message))
	s.say("SENT", string(message.Body))
	return receipts[0]
}

// --- consuming ---------------------------------------------------------------------------------

func (s *scenarios) received(view *rmq.MessageView) {
	group := "0"
	if own := view.GetMessageGroup(); own != nil {
		group = *own
	}
	s.say("RECEIVED", key(view), group)
}

func (s *scenarios) take(view *rmq.MessageView) rmq.ConsumerResult {
	s.received(view)
	s.missing <- struct{}{}
	return rmq.SUCCESS
}

func (s *scenarios) takeSecond(view *rmq.MessageView) rmq.ConsumerResult {
	if view.GetDeliveryAttempt() > 1 {
		return s.take(view)
	}
	return rmq.FAILURE
}

func (s *scenarios) push(wanted *rmq.FilterExpression, take taker) rmq.PushConsumer {
	made := must(rmq.NewPushConsumer(s.config(s.group()),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{s.topic(): wanted}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: take}),
	))
	check(made.Start())
	return made
}

// stop goes on in the background: once an answer was empty, this client takes the longest time of a receive to end.
func (s *scenarios) stop(consumer rmq.PushConsumer) {
	s.stopping.Add(1)
	go func() {
		defer s.stopping.Done()
		_ = consumer.GracefulStop()
	}()
}

func (s *scenarios) consumed(number int, wanted *rmq.FilterExpression, take taker, sending func()) {
	s.missing = make(chan struct{}, 10*count)
	defer s.stop(s.push(wanted, take))
	sending()
	end := time.After(wait)
	for ; number > 0; number-- {
		select {
		case <-s.missing:
		case <-end:
			s.say("FAILED", fmt.Sprintf("%d did not come in %s", number, wait))
			return
		}
	}
	time.Sleep(twice)
}

// receive takes what comes until `judge` has taken so many, or none comes for too long.
func (s *scenarios) receive(
	topic, group string, number int, sending func(), judge func(consumer rmq.SimpleConsumer, view *rmq.MessageView) bool,
) {
	consumer := must(rmq.NewSimpleConsumer(s.config(group),
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}),
	))
	check(consumer.Start())
	defer func() { _ = consumer.GracefulStop() }()
	sending()
	for end := time.Now().Add(wait); number > 0 && time.Now().Before(end); {
		views, err := consumer.Receive(context.Background(), 10, hidden)
		if status, is := rmq.AsErrRpcStatus(err); is && status.Code == int32(v2.Code_MESSAGE_NOT_FOUND) {
			continue // for this client an empty answer is an error
		}
		check(err)
		for _, view := range views {
			if judge(consumer, view) {
				s.say("RECEIVED", key(view), "0")
				check(consumer.Ack(context.Background(), view))
				number--
			}
		}
	}
	if number > 0 {
		s.say("FAILED", fmt.Sprintf("%d did not come in %s", number, wait))
	}
}

func always(rmq.SimpleConsumer, *rmq.MessageView) bool { return true }

// --- sending -----------------------------------------------------------------------------------

func (s *scenarios) sync() {
	for n := 0; n < count; n++ {
		s.send(s.message(fmt.Sprint("k", n)))
	}
}

func (s *scenarios) async() {
	var sent sync.WaitGroup
	for n := 0; n < count; n++ {
		key := fmt.Sprint("k", n)
		sent.Add(1)
		s.producer.SendAsync(context.Background(), s.message(key),
			func(_ context.Context, _ []*rmq.SendReceipt, err error) {
				defer sent.Done()
				if err != nil {
					s.say("FAILED", err.Error())
				} else {
					s.say("SENT", key)
				}
			})
	}
	sent.Wait()
}

func (s *scenarios) grouped() {
	for n := 0; n < count; n++ {
		message := s.message(fmt.Sprint("k", n))
		message.SetMessageGroup(fmt.Sprint(n % groups))
		s.send(message)
	}
}

func (s *scenarios) tagged() {
	for n := 0; n < count; n++ {
		message := s.message(yesOrNo(n))
		message.SetTag([]string{"A", "B", "C", "B"}[n%4])
		s.send(message)
	}
}

func (s *scenarios) priced() {
	for n := 0; n < count; n++ {
		message := s.message(yesOrNo(n))
		message.AddProperty("region", []string{"north", "east"}[n%2])
		message.AddProperty("amount", fmt.Sprint(n))
		s.send(message)
	}
}

// transaction leaves every fourth open: the broker asks.
func (s *scenarios) transaction() {
	for n := 0; n < count; n++ {
		key := yesOrNo(n)
		transaction := s.producer.BeginTransaction()
		must(s.producer.SendWithTransaction(context.Background(), s.message(key), transaction))
		s.say("SENT", key)
		switch n % 4 {
		case 1:
			check(transaction.RollBack())
		case 2:
			check(transaction.Commit())
		}
	}
}

func (s *scenarios) later(key string, at time.Time) *rmq.SendReceipt {
	message := s.message(key)
	message.SetDelayTimestamp(at)
	return s.send(message)
}

func (s *scenarios) recalled() {
	for n := 0; n < count; n++ {
		receipt := s.later(yesOrNo(n), time.Now().Add(4*delay))
		if n%2 == 1 {
			must(s.producer.Recall(context.Background(), s.topic(), receipt.RecallHandle))
		}
	}
}

// --- whole scenarios ---------------------------------------------------------------------------

func (s *scenarios) timers() {
	at := time.Now().Add(delay)
	s.receive(s.topic(), s.group(), count, func() {
		for n := 0; n < count; n++ {
			s.later(fmt.Sprint("k", n), at)
		}
	}, func(_ rmq.SimpleConsumer, view *rmq.MessageView) bool {
		if time.Now().Before(at) {
			s.say("FAILED", key(view)+" came early")
		}
		return true
	})
}

func (s *scenarios) pop() { s.receive(s.topic(), s.group(), count, s.sync, always) }

// invisibleTime hides what is seen first for a second only; it comes again: then it is taken.
func (s *scenarios) invisibleTime() {
	seen := map[string]bool{}
	s.receive(s.topic(), s.group(), count, s.sync, func(consumer rmq.SimpleConsumer, view *rmq.MessageView) bool {
		if seen[key(view)] {
			return true
		}
		seen[key(view)] = true
		check(consumer.ChangeInvisibleDuration(view, soon))
		return false
	})
}

// deadLetters are what nobody takes: the client gives up a group in order, the server the others.
func (s *scenarios) deadLetters(sending func()) {
	defer s.stop(s.push(rmq.SUB_ALL, func(*rmq.MessageView) rmq.ConsumerResult { return rmq.FAILURE }))
	s.receive("%DLQ%"+s.group(), s.group()+"_readers", count, sending, always)
}

// secured is as the client comes: it speaks TLS, and takes any certificate.
func (s *scenarios) secured() {
	plain := s.endpoints
	defer func() { rmq.EnableSsl, s.endpoints = false, plain }()
	rmq.EnableSsl, s.endpoints = true, os.Getenv("TLS_ENDPOINTS")
	defer s.produce(s.name)()
	s.consumed(count, rmq.SUB_ALL, s.take, s.sync)
}

// signed sends and receives; what is signed with another secret is refused.
func (s *scenarios) signed() {
	plain := s.endpoints
	defer func() { s.endpoints, s.account = plain, credentials.SessionCredentials{} }()
	s.endpoints = os.Getenv("SIGNED_ENDPOINTS")
	s.account = credentials.SessionCredentials{
		AccessKey: os.Getenv("ACCESS_KEY"), AccessSecret: os.Getenv("SECRET_KEY"),
	}
	stop := s.produce(s.name)
	s.consumed(count, rmq.SUB_ALL, s.take, s.sync)
	stop()
	s.account.AccessSecret = "another"
	refused := make(chan string, 1)
	go func() {
		defer func() { refused <- fmt.Sprint(recover()) }()
		s.produce(s.name)
	}()
	select {
	case why := <-refused:
		if !strings.Contains(why, "UNAUTHORIZED") {
			s.say("FAILED", "another secret: "+why)
		}
	case <-time.After(wait):
		s.say("FAILED", "another secret is not refused")
	}
}

// restarted goes on when the broker has gone and come back; nobody is told.
func (s *scenarios) restarted() {
	for n := 0; n < count; n++ {
		if n == count/2 {
			for end := time.Now().Add(wait); len(s.missing) < n && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(twice)
			ask("restart", "{}")
		}
		s.insist(s.message(fmt.Sprint("k", n)))
	}
}

// insist sends until the message is taken: the first attempts may find no broker.
func (s *scenarios) insist(message *rmq.Message) {
	for end := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		_, err := s.producer.Send(context.Background(), message)
		if err == nil {
			s.say("SENT", string(message.Body))
			return
		}
		if time.Now().After(end) {
			panic(err)
		}
	}
}

// days lets most of a day pass in a moment, and nothing comes; then one more hour does.
func (s *scenarios) days() {
	due := time.Now().Add(hours * time.Hour)
	for n := 0; n < count; n++ {
		s.later(fmt.Sprint("k", n), due)
	}
	advance(hours - 1)
	time.Sleep(twice)
	if early := len(s.missing); early > 0 {
		s.say("FAILED", fmt.Sprintf("%d came an hour early", early))
	}
	advance(1)
}

func advance(hours int) { ask("clock/advance", fmt.Sprintf(`{"hours": %d}`, hours)) }

func ask(what, fields string) {
	body := bytes.NewBufferString(fields)
	answer := must(http.Post(os.Getenv("CONTROL")+"/"+what, "application/json", body))
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		panic(answer.Status)
	}
}

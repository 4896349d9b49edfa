// RocketMQ's remoting client in Go as a peer of the bench "peers", which says what a peer does and prints.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	window = 1000
	batch  = 32
	wait   = 120 * time.Second
)

var body = bytes.Repeat([]byte("x"), 256)

type peer struct {
	namesrv  primitive.NamesrvAddr
	prefix   string
	producer rocketmq.Producer
	echoes   chan time.Time
	groups   int
}

func main() {
	rlog.SetLogLevel("fatal")
	counts := make([]int, 0, 5)
	for _, one := range os.Args[3:] {
		counts = append(counts, must(strconv.Atoi(one)))
	}
	p := &peer{
		namesrv: primitive.NamesrvAddr{os.Args[1]},
		prefix:  os.Args[2],
		echoes:  make(chan time.Time),
	}
	p.producer = must(rocketmq.NewProducer(
		producer.WithNameServer(p.namesrv),
		producer.WithGroupName(p.prefix+"_producer"),
		producer.WithInstanceName("producer"),
	))
	check(p.producer.Start())
	p.send(p.echo())
	fmt.Println("SENT")
	listener := p.consumer(p.prefix+"_echo", func(count int) {
		for ; count > 0; count-- {
			p.echoes <- time.Now()
		}
	})
	p.take()
	fmt.Println("IDLE")
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	report("blocking", p.blocking, counts[0])
	report("window", p.window, counts[1])
	report("batch", p.batch, counts[2])
	report("consume", p.consume, counts[3])
	report("latency", p.latency, counts[4])
	_ = listener.Shutdown()
	_ = p.producer.Shutdown()
}

func report(name string, part func(int) float64, count int) {
	part(count)
	fmt.Printf("%s\t%g\n", name, part(count))
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

func (p *peer) echo() *primitive.Message { return primitive.NewMessage(p.prefix+"_echo", body) }

func (p *peer) message() *primitive.Message { return primitive.NewMessage(p.prefix+"_load", body) }

func (p *peer) send(messages ...*primitive.Message) {
	must(p.producer.SendSync(context.Background(), messages...))
}

func rate(count int, since time.Time) float64 { return float64(count) / time.Since(since).Seconds() }

func (p *peer) blocking(count int) float64 {
	since := time.Now()
	for i := 0; i < count; i++ {
		p.send(p.message())
	}
	return rate(count, since)
}

func (p *peer) window(count int) float64 {
	room := make(chan struct{}, window)
	since := time.Now()
	for i := 0; i < count; i++ {
		room <- struct{}{}
		check(p.producer.SendAsync(context.Background(), func(_ context.Context, _ *primitive.SendResult, err error) {
			check(err)
			<-room
		}, p.message()))
	}
	for i := 0; i < window; i++ {
		room <- struct{}{}
	}
	return rate(count, since)
}

func (p *peer) batch(count int) float64 {
	since := time.Now()
	for i := 0; i < count; i += batch {
		messages := make([]*primitive.Message, batch)
		for j := range messages {
			messages[j] = p.message()
		}
		p.send(messages...)
	}
	return rate(count, since)
}

func (p *peer) consume(count int) float64 {
	var first, came atomic.Int64
	done := make(chan time.Time, 1)
	reader := p.consumer(p.prefix+"_load", func(more int) {
		first.CompareAndSwap(0, time.Now().UnixNano())
		after := came.Add(int64(more))
		if after >= int64(count) && after-int64(more) < int64(count) {
			done <- time.Now()
		}
	})
	defer func() { _ = reader.Shutdown() }()
	select {
	case end := <-done:
		return float64(count) * 1e9 / float64(end.UnixNano()-first.Load())
	case <-time.After(wait):
		panic(fmt.Sprintf("%d of %d messages came", came.Load(), count))
	}
}

func (p *peer) latency(count int) float64 {
	micros := make([]float64, count)
	for i := range micros {
		since := time.Now()
		p.send(p.echo())
		micros[i] = float64(p.take().Sub(since).Nanoseconds()) / 1e3
	}
	sort.Float64s(micros)
	return micros[count/2]
}

func (p *peer) take() time.Time {
	select {
	case at := <-p.echoes:
		return at
	case <-time.After(wait):
		panic("a message did not come")
	}
}

func (p *peer) consumer(topic string, note func(count int)) rocketmq.PushConsumer {
	p.groups++
	name := fmt.Sprintf("%s_reader_%d", p.prefix, p.groups)
	made := must(rocketmq.NewPushConsumer(
		consumer.WithNameServer(p.namesrv),
		consumer.WithGroupName(name),
		consumer.WithInstance(name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	))
	check(made.Subscribe(topic, consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			note(len(messages))
			return consumer.ConsumeSuccess, nil
		}))
	check(made.Start())
	return made
}

// Thirty days pass in a moment, asked for from another process: the standard library is enough.
//
//	rocketmq-py serve --control-port 9880 --clock frozen --set timerMaxDelaySec=3456000
//	go run examples/control/later.go http://127.0.0.1:9880
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	url := os.Args[1]
	post(url+"/topics", `{"name": "Later"}`)
	post(url+"/messages", `{"topic": "Later", "body": "hello", "delay": 2592000}`)
	fmt.Println(post(url+"/clock/advance", `{"days": 30}`))
	fmt.Println(post(url+"/topics/Later/wait", `{"count": 1}`))
}

func post(url, json string) string {
	answer, err := http.Post(url, "application/json", strings.NewReader(json))
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		panic(fmt.Sprint(err, string(body)))
	}
	return string(body)
}

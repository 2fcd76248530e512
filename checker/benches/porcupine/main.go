// Judges a lock history with Porcupine: the same file that benches/speed.rs judges, in the same run.
//
// Input, a line an operation: client, 0 for acquire or 1 for release, invoke, return (-1: never answered), 1 for ok or
// 0 for a try that was told that another holds it.
// Output: operations, result, milliseconds, MiB that the Go runtime took from the system.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

type input struct {
	client  int
	release bool
}

const free = -1

// An owner-aware mutex.
var mutex = porcupine.Model{
	Init: func() interface{} { return free },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		i := in.(input)
		if !out.(bool) {
			return state.(int) != free, state
		}
		if i.release {
			return state.(int) == i.client, free
		}
		return state.(int) == free, i.client
	},
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	limit := time.Duration(0)
	if len(os.Args) > 2 {
		seconds, _ := strconv.Atoi(os.Args[2])
		limit = time.Duration(seconds) * time.Second
	}
	var ops []porcupine.Operation
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var client, release, ok int
		var call, ret int64
		if _, err := fmt.Sscan(lines.Text(), &client, &release, &call, &ret, &ok); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if ret < 0 {
			ret = math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{ClientId: client, Input: input{client, release == 1}, Call: call, Output: ok == 1, Return: ret})
	}
	begin := time.Now()
	result := porcupine.CheckOperationsTimeout(mutex, ops, limit)
	took := time.Since(begin)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Println(len(ops), result, took.Milliseconds(), memory.Sys>>20)
}

// Package fencepost is the client protocol (PROTOCOL.md) for adapters in Go: lines in, lines out, and the published
// error codes.
//
// It owns standard input and output and the codes, and knows no lock library. Requests of one worker run one after the
// other, but for work, beside which extend may run.
package fencepost

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Init is what an adapter is told before anything else.
type Init struct {
	Nodes         []string       `json:"nodes"`
	TTLMs         int64          `json:"ttl_ms"`
	Prefix        string         `json:"prefix"`
	RetryMs       int64          `json:"retry_ms"`
	NodeTimeoutMs int64          `json:"node_timeout_ms"`
	Workers       int            `json:"workers"`
	Options       map[string]any `json:"options"`
}

// TTL is the lease to ask for.
func (i Init) TTL() time.Duration { return time.Duration(i.TTLMs) * time.Millisecond }

// NodeTimeout bounds one command to one server.
func (i Init) NodeTimeout() time.Duration { return time.Duration(i.NodeTimeoutMs) * time.Millisecond }

// Retry is the longest pause between two tries.
func (i Init) Retry() time.Duration { return time.Duration(i.RetryMs) * time.Millisecond }

// Number is an option, or 0.
func (i Init) Number(name string) int {
	n, _ := i.Options[name].(float64)
	return int(n)
}

// Truth is an option, or false.
func (i Init) Truth(name string) bool {
	b, _ := i.Options[name].(bool)
	return b
}

// Value is the value of an ok answer.
type Value map[string]any

// Refused is an operation that is not ok, with a code of the error table.
type Refused struct{ Code, Message string }

func (r Refused) Error() string { return r.Message }

// Refuse makes a Refused.
func Refuse(code string, why any) error { return Refused{code, fmt.Sprint(why)} }

// Adapter is a lock library behind the protocol.
type Adapter interface {
	Init(Init) (Value, error)
	Acquire(worker int, key string, wait time.Duration) (Value, error)
	Release(worker int, key string) error
}

// Extender is an adapter whose library can extend a lease.
type Extender interface {
	Extend(worker int, key string, ttl time.Duration) (Value, error)
}

// Holder is an adapter whose library says whether it still believes.
type Holder interface {
	Held(worker int, key string) (bool, error)
}

var refused = words(`connection-refused not-sent moved readonly noreplicas oom misconf loading clusterdown masterdown
	noscript busy noauth`)

// Codes that say, by operation, that it certainly had no effect (the error table of PROTOCOL.md). All others are doubt.
var definite = map[string]map[string]bool{
	"acquire": with(refused, "unsupported", "bad-request", "not-initialised", "held", "too-late", "no-quorum"),
	"release": with(nil, "unsupported", "bad-request", "not-initialised", "not-owner", "not-held"),
	"extend":  with(nil, "unsupported", "bad-request", "not-initialised", "not-owner", "not-held", "lease-over"),
}

var serverErrors = map[string]string{
	"MOVED": "moved", "ASK": "moved", "READONLY": "readonly", "NOREPLICAS": "noreplicas", "OOM": "oom",
	"MISCONF": "misconf", "LOADING": "loading", "CLUSTERDOWN": "clusterdown", "TRYAGAIN": "clusterdown",
	"MASTERDOWN": "masterdown", "NOSCRIPT": "noscript", "BUSY": "busy", "NOAUTH": "noauth", "WRONGPASS": "noauth",
	"NOPERM": "noauth",
}

func words(text string) []string { return strings.Fields(text) }

func with(base []string, more ...string) map[string]bool {
	all := map[string]bool{}
	for _, code := range append(more, base...) {
		all[code] = true
	}
	return all
}

// CodeOf is the code of an error of go-redis, by its words.
func CodeOf(err error) string {
	var refusal Refused
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	text := err.Error()
	first, _, _ := strings.Cut(text, " ")
	if code, ok := serverErrors[first]; ok {
		return code
	}
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	// A dial that failed: no byte of the command left.
	case has("connection refused"):
		return "connection-refused"
	case has("dial tcp", "pool timeout"):
		return "not-sent"
	case has("timeout", "deadline exceeded"):
		return "timeout"
	case has("EOF", "connection reset", "broken pipe", "closed"):
		return "connection-reset"
	case has("canceled"):
		return "interrupted"
	case strings.HasPrefix(text, "ERR"), strings.HasPrefix(text, "WRONGTYPE"):
		return "server-error"
	}
	return "crash"
}

// QuorumCode is the code of a failed try on several nodes, from the driver's errors: doubt as soon as one may have acted.
func QuorumCode(errs []error, nodes int) string {
	for _, err := range errs {
		if !with(refused)[CodeOf(err)] {
			return "no-quorum-unclean"
		}
	}
	if nodes == 1 && len(errs) == 0 {
		return "held"
	}
	return "no-quorum"
}

// DriverVersion is a module's version as it was built in.
func DriverVersion(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return strings.TrimPrefix(dep.Version, "v")
		}
	}
	return "unknown"
}

type request struct {
	ID     json.Number `json:"id"`
	Op     string      `json:"op"`
	Worker int         `json:"worker"`
	Key    string      `json:"key"`
	WaitMs int64       `json:"wait_ms"`
	TTLMs  int64       `json:"ttl_ms"`
	Ms     float64     `json:"ms"`

	// How long the library's call took, in ms.
	took float64
}

var output sync.Mutex

func write(line any) {
	data, err := json.Marshal(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(data, '\n'))
}

// Lost says that the library told its user that the lock is gone.
func Lost(worker int, key string) {
	write(map[string]any{"type": "lost", "worker": worker, "key": key})
}

// Serve serves until close or the end of standard input.
func Serve(adapter Adapter) {
	workers := map[int]chan request{}
	ready := false
	lines := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			write(map[string]any{"type": "fail", "error": "bad-request", "message": err.Error()})
			continue
		}
		switch {
		case r.Op == "init":
			var init Init
			value, err := Value(nil), json.Unmarshal(line, &init)
			if err == nil {
				value, err = adapter.Init(init)
			}
			ready = ready || err == nil
			answer(r, value, err)
		case r.Op == "tick":
			answer(r, nil, nil)
		case r.Op == "close":
			answer(r, nil, nil)
			os.Exit(0)
		case !ready:
			answer(r, nil, Refuse("not-initialised", "init comes first"))
		case r.Op == "work":
			time.AfterFunc(time.Duration(r.Ms*float64(time.Millisecond)), func() { answer(r, nil, nil) })
		case strings.Contains(" acquire release extend held ", " "+r.Op+" "):
			queue, ok := workers[r.Worker]
			if !ok {
				queue = make(chan request, 1<<16)
				workers[r.Worker] = queue
				go func() {
					for r := range queue {
						called := time.Now()
						value, err := call(adapter, r)
						r.took = float64(time.Since(called)) / float64(time.Millisecond)
						answer(r, value, err)
					}
				}()
			}
			queue <- r
		default:
			answer(r, nil, Refuse("unsupported", "no such operation"))
		}
	}
}

func answer(r request, value Value, err error) {
	line := map[string]any{"id": r.ID, "type": "ok"}
	if r.took > 0 {
		line["took_ms"] = r.took
	}
	if err != nil {
		code := CodeOf(err)
		codes, known := definite[r.Op]
		line["type"] = "info"
		if !known || codes[code] {
			line["type"] = "fail"
		}
		line["error"], line["message"] = code, err.Error()
	} else if value != nil {
		line["value"] = value
	}
	write(line)
}

func call(adapter Adapter, r request) (value Value, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = Refuse("crash", panicked)
		}
	}()
	unsupported := Refuse("unsupported", "this library has no "+r.Op)
	switch r.Op {
	case "acquire":
		return adapter.Acquire(r.Worker, r.Key, time.Duration(r.WaitMs)*time.Millisecond)
	case "release":
		return nil, adapter.Release(r.Worker, r.Key)
	case "extend":
		if extender, ok := adapter.(Extender); ok {
			return extender.Extend(r.Worker, r.Key, time.Duration(r.TTLMs)*time.Millisecond)
		}
		return nil, unsupported
	default:
		if holder, ok := adapter.(Holder); ok {
			held, err := holder.Held(r.Worker, r.Key)
			return Value{"held": held}, err
		}
		return nil, unsupported
	}
}

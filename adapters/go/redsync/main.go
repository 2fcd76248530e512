// redsync on go-redis 8, version 4.0 to 4.13: one try, on all nodes, one Mutex an attempt.
//
// Options: retries (of the driver), tries (of the library), set_nx_on_extend.
package main

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/go-redis/redis/v8"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v8"

	"fencepost.adapters/fencepost"
)

type adapter struct {
	init    fencepost.Init
	clients []*redis.Client
	lock    sync.Mutex
	workers map[int]*worker
}

// worker has pools of its own, so that the driver's errors belong to its call; redsync does not hand them all on.
type worker struct {
	sync.Mutex
	redsync *redsync.Redsync
	errs    []error
	held    map[string]*redsync.Mutex
}

type notingPool struct {
	pool.Pool
	worker *worker
}

type notingConn struct {
	pool.Conn
	worker *worker
}

func (p notingPool) Get(ctx context.Context) (pool.Conn, error) {
	conn, err := p.Pool.Get(ctx)
	p.worker.note(err)
	return notingConn{conn, p.worker}, err
}

func (c notingConn) SetNX(name string, value string, expiry time.Duration) (bool, error) {
	ok, err := c.Conn.SetNX(name, value, expiry)
	c.worker.note(err)
	return ok, err
}

func (c notingConn) Eval(script *pool.Script, args ...interface{}) (interface{}, error) {
	answer, err := c.Conn.Eval(script, args...)
	c.worker.note(err)
	return answer, err
}

func (w *worker) note(err error) {
	if err != nil {
		w.Lock()
		w.errs = append(w.errs, err)
		w.Unlock()
	}
}

func (w *worker) noted() []error {
	w.Lock()
	defer w.Unlock()
	return append([]error(nil), w.errs...)
}

func (a *adapter) Init(init fencepost.Init) (fencepost.Value, error) {
	a.init, a.workers = init, map[int]*worker{}
	retries := init.Number("retries")
	for _, node := range init.Nodes {
		maxRetries := retries
		if maxRetries == 0 {
			maxRetries = -1 // go-redis: none
		}
		timeout := init.NodeTimeout()
		client := redis.NewClient(&redis.Options{Addr: node, MaxRetries: maxRetries, DialTimeout: timeout,
			ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout, PoolSize: init.Workers + 2})
		client.Ping(context.Background()) // a node that is down now may be up later
		a.clients = append(a.clients, client)
	}
	return fencepost.Value{
		"library": "redsync", "version": fencepost.DriverVersion("github.com/go-redsync/redsync/v4"),
		"driver":  "go-redis " + fencepost.DriverVersion("github.com/go-redis/redis/v8"),
		"retries": retries,
	}, nil
}

func (a *adapter) worker(number int) *worker {
	a.lock.Lock()
	defer a.lock.Unlock()
	w, ok := a.workers[number]
	if !ok {
		w = &worker{held: map[string]*redsync.Mutex{}}
		var pools []pool.Pool
		for _, client := range a.clients {
			pools = append(pools, notingPool{goredis.NewPool(client), w})
		}
		w.redsync = redsync.New(pools...)
		a.workers[number] = w
	}
	w.Lock()
	w.errs = nil
	w.Unlock()
	return w
}

func (a *adapter) Acquire(number int, key string, wait time.Duration) (fencepost.Value, error) {
	if wait > 0 {
		return nil, fencepost.Refuse("unsupported", "it counts its tries, not its time")
	}
	w := a.worker(number)
	tries := a.init.Number("tries")
	if tries == 0 {
		tries = 1
	}
	options := []redsync.Option{redsync.WithExpiry(a.init.TTL()), redsync.WithTries(tries),
		redsync.WithRetryDelay(a.init.Retry())}
	options = append(options, moreOptions(a.init)...)
	mutex := w.redsync.NewMutex(a.init.Prefix+key, options...)
	delete(w.held, key)
	if err := mutex.Lock(); err != nil {
		return nil, fencepost.Refuse(fencepost.QuorumCode(w.noted(), len(a.clients)), err)
	}
	w.held[key] = mutex
	// The early versions keep the value to themselves.
	value := fencepost.Value{"owner": reflect.ValueOf(mutex).Elem().FieldByName("value").String()}
	return withValidity(value, mutex), nil
}

// withValidity adds what the library claims, where it claims something (from 4.4 on).
func withValidity(value fencepost.Value, mutex any) fencepost.Value {
	if claims, ok := mutex.(interface{ Until() time.Time }); ok {
		value["validity_ms"] = float64(time.Until(claims.Until())) / float64(time.Millisecond)
	}
	return value
}

func (a *adapter) Release(number int, key string) error {
	w := a.worker(number)
	mutex, ok := w.held[key]
	if !ok {
		return fencepost.Refuse("not-held", "no lock of this worker")
	}
	done, err := mutex.Unlock()
	if !done {
		return w.refusal(err)
	}
	delete(w.held, key)
	return nil
}

func (a *adapter) Extend(number int, key string, ttl time.Duration) (fencepost.Value, error) {
	w := a.worker(number)
	mutex, ok := w.held[key]
	if !ok {
		return nil, fencepost.Refuse("not-held", "no lock of this worker")
	}
	if ttl != a.init.TTL() {
		return nil, fencepost.Refuse("unsupported", "the lease is the mutex's: it cannot be another")
	}
	done, err := mutex.Extend()
	if !done {
		return nil, w.refusal(err)
	}
	return withValidity(fencepost.Value{}, mutex), nil
}

func (w *worker) refusal(err error) error {
	switch {
	case len(w.noted()) > 0:
		return fencepost.Refuse("no-quorum-unclean", err)
	case err != nil && err.Error() == "redsync: failed to extend lock":
		return fencepost.Refuse("too-late", err)
	}
	return fencepost.Refuse("not-owner", err)
}

func (a *adapter) Held(number int, key string) (bool, error) {
	mutex, ok := a.worker(number).held[key]
	if !ok {
		return false, nil
	}
	if claims, ok := any(mutex).(interface{ Until() time.Time }); ok {
		return time.Now().Before(claims.Until()), nil
	}
	return mutex.Valid()
}

func main() { fencepost.Serve(&adapter{}) }

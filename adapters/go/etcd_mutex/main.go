// etcd's own concurrency.Mutex: a Session (a lease) for each attempt, which the client keeps alive by itself and whose end
// it tells. It claims no validity. The owner is the lease's id as it stands in the lock's key, the token the revision that
// created that key.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"fencepost.adapters/fencepost"
)

type place struct {
	worker int
	key    string
}

type hold struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

type adapter struct {
	init   fencepost.Init
	client *clientv3.Client
	lock   sync.Mutex
	held   map[place]hold
}

func (a *adapter) Init(init fencepost.Init) (fencepost.Value, error) {
	a.init, a.held = init, map[place]hold{}
	if init.TTLMs%1000 != 0 {
		return nil, fencepost.Refuse("unsupported", "a lease of etcd is whole seconds")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: init.Nodes, DialTimeout: init.NodeTimeout(),
		DialKeepAliveTime: init.NodeTimeout(), DialKeepAliveTimeout: init.NodeTimeout(), Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	a.client = client
	ctx, cancel := a.limit(0)
	defer cancel()
	client.Get(ctx, init.Prefix) // a member that is down now may be up later
	version := fencepost.DriverVersion("go.etcd.io/etcd/client/v3")
	return fencepost.Value{
		"library": "etcd concurrency.Mutex", "version": version, "driver": "etcd client " + version,
		// Writes are sent again only where none of them can have been executed.
		"retries": 0, "promises_notice": true,
	}, nil
}

// limit bounds an operation: the client may have to ask each member, and what takes longer than the lease is worth nothing.
func (a *adapter) limit(more time.Duration) (context.Context, context.CancelFunc) {
	all := a.init.NodeTimeout() * time.Duration(len(a.init.Nodes))
	return context.WithTimeout(context.Background(), min(all, a.init.TTL())+more)
}

// take removes what a worker holds, so that its session's end is no loss.
func (a *adapter) take(at place) (hold, bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	h, ok := a.held[at]
	delete(a.held, at)
	return h, ok
}

func (a *adapter) keep(at place, h hold) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.held[at] = h
	go func() {
		<-h.session.Done()
		a.lock.Lock()
		defer a.lock.Unlock()
		if a.held[at] == h {
			fencepost.Lost(at.worker, at.key)
		}
	}()
}

func (a *adapter) Acquire(worker int, key string, wait time.Duration) (fencepost.Value, error) {
	at := place{worker, key}
	a.take(at)
	ctx, cancel := a.limit(wait)
	defer cancel()
	lease, err := a.client.Grant(ctx, a.init.TTLMs/1000)
	if err != nil {
		// A lease without a key holds nothing.
		return nil, fencepost.Refuse("no-quorum", err)
	}
	session, err := concurrency.NewSession(a.client, concurrency.WithLease(lease.ID),
		concurrency.WithTTL(int(a.init.TTLMs/1000)))
	if err != nil {
		return nil, fencepost.Refuse("no-quorum", err)
	}
	mutex := concurrency.NewMutex(session, a.init.Prefix+key)
	if err := try(ctx, mutex, wait); err != nil {
		go session.Close()
		return nil, refusal(err)
	}
	a.keep(at, hold{session, mutex})
	created := etcdserverpb.Compare(mutex.IsOwner())
	return fencepost.Value{"owner": fmt.Sprintf("%x", lease.ID), "token": created.GetCreateRevision()}, nil
}

func try(ctx context.Context, mutex *concurrency.Mutex, wait time.Duration) error {
	if wait == 0 {
		return mutex.TryLock(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return mutex.Lock(ctx)
}

// refusal: all errors but one leave it open whether the key was written.
func refusal(err error) error {
	switch {
	case errors.Is(err, concurrency.ErrLocked):
		return fencepost.Refuse("held", err)
	case errors.Is(err, concurrency.ErrSessionExpired), errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fencepost.Refuse("session-lost", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fencepost.Refuse("timeout", err)
	}
	return fencepost.Refuse("connection-reset", err)
}

func (a *adapter) Release(worker int, key string) error {
	h, ok := a.take(place{worker, key})
	if !ok {
		return fencepost.Refuse("not-held", "no lock of this worker")
	}
	ctx, cancel := a.limit(0)
	defer cancel()
	// Its lease goes with the session, whether the key could be deleted or not.
	defer func() { go h.session.Close() }()
	if err := h.mutex.Unlock(ctx); err != nil {
		return refusal(err)
	}
	return nil
}

func (a *adapter) Held(worker int, key string) (bool, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	h, ok := a.held[place{worker, key}]
	if !ok {
		return false, nil
	}
	select {
	case <-h.session.Done():
		return false, nil
	default:
		return true, nil
	}
}

func main() { fencepost.Serve(&adapter{}) }

// bsm/redislock on go-redis 9: one script a try. It claims no validity.
//
// Options: retries (of the driver).
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"fencepost.adapters/fencepost"
)

type place struct {
	worker int
	key    string
}

type adapter struct {
	init   fencepost.Init
	client *redislock.Client
	lock   sync.Mutex
	held   map[place]*redislock.Lock
}

func (a *adapter) Init(init fencepost.Init) (fencepost.Value, error) {
	a.init, a.held = init, map[place]*redislock.Lock{}
	retries := init.Number("retries")
	maxRetries := retries
	if maxRetries == 0 {
		maxRetries = -1 // go-redis: none
	}
	timeout := init.NodeTimeout()
	client := redis.NewClient(&redis.Options{Addr: init.Nodes[0], MaxRetries: maxRetries, DialTimeout: timeout,
		ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout, PoolSize: init.Workers + 2})
	client.Ping(context.Background()) // a node that is down now may be up later
	a.client = redislock.New(client)
	return fencepost.Value{
		"library": "bsm/redislock", "version": fencepost.DriverVersion("github.com/bsm/redislock"),
		"driver":  "go-redis " + fencepost.DriverVersion("github.com/redis/go-redis/v9"),
		"retries": retries,
	}, nil
}

func (a *adapter) get(worker int, key string) (*redislock.Lock, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	lock, ok := a.held[place{worker, key}]
	if !ok {
		return nil, fencepost.Refuse("not-held", "no lock of this worker")
	}
	return lock, nil
}

func (a *adapter) set(worker int, key string, lock *redislock.Lock) {
	a.lock.Lock()
	defer a.lock.Unlock()
	delete(a.held, place{worker, key})
	if lock != nil {
		a.held[place{worker, key}] = lock
	}
}

func (a *adapter) Acquire(worker int, key string, wait time.Duration) (fencepost.Value, error) {
	a.set(worker, key, nil)
	options := &redislock.Options{RetryStrategy: redislock.NoRetry()}
	ctx := context.Background()
	if wait > 0 {
		options.RetryStrategy = redislock.LinearBackoff(a.init.Retry())
		bounded, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		ctx = bounded
	}
	lock, err := a.client.Obtain(ctx, a.init.Prefix+key, a.init.TTL(), options)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, fencepost.Refuse("held", err)
	}
	if err != nil {
		return nil, err
	}
	a.set(worker, key, lock)
	return fencepost.Value{"owner": lock.Token() + lock.Metadata()}, nil
}

func (a *adapter) Release(worker int, key string) error {
	lock, err := a.get(worker, key)
	if err != nil {
		return err
	}
	err = lock.Release(context.Background())
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return fencepost.Refuse("not-owner", err)
	}
	if err == nil {
		a.set(worker, key, nil)
	}
	return err
}

func (a *adapter) Extend(worker int, key string, ttl time.Duration) (fencepost.Value, error) {
	lock, err := a.get(worker, key)
	if err != nil {
		return nil, err
	}
	err = lock.Refresh(context.Background(), ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, fencepost.Refuse("not-owner", err)
	}
	return nil, err
}

func (a *adapter) Held(worker int, key string) (bool, error) {
	lock, err := a.get(worker, key)
	if err != nil {
		return false, nil
	}
	left, err := lock.TTL(context.Background())
	return left > 0, err
}

func main() { fencepost.Serve(&adapter{}) }

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usher-dev/usher/internal/attack"
	"github.com/usher-dev/usher/internal/load"
)

// A soak is honest requests beside attackers.
type soak struct {
	usher    string
	duration time.Duration
	rate     float64
	// memory is what the server may take, in MB.
	memory int64
	// limit is its GOMEMLIMIT.
	limit string
}

// values has the settings of servers in clusters.
const values = "deploy/helm/usher/values.yaml"

// runSoak attacks a server for a while, and fails if an honest request is lost or the server takes
// too much memory. Attackers have the same credentials as honest callers, but another address.
func runSoak(ctx context.Context, args []string) error {
	var s soak
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.StringVar(&s.usher, "usher", "bin/usher", "the binary to attack")
	flags.DurationVar(&s.duration, "duration", 2*time.Minute, "how long")
	flags.Float64Var(&s.rate, "rate", 500, "honest requests a second")
	flags.Int64Var(&s.memory, "memory", 300, "the most memory that the server may take, in MB")
	if err := flags.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(values)
	if err != nil {
		return fmt.Errorf("read settings (run this in the root of the project): %w", err)
	}
	found := regexp.MustCompile(`(?m)^goMemLimit: (\S+)$`).FindSubmatch(text)
	if found == nil {
		return fmt.Errorf("read settings: there is no goMemLimit in %s", values)
	}
	s.limit = string(found[1])
	return s.run(ctx, os.Stdout)
}

func (s *soak) run(ctx context.Context, w io.Writer) error {
	r, err := newRig(s.usher, []string{"--max-in-flight", "400"})
	if err != nil {
		return err
	}
	defer r.close()
	r.env = []string{"GOMEMLIMIT=" + s.limit}
	policies := missing(100) + languages[1].policies(5) + languages[5].policies(5)
	server, err := r.start(ctx, target{name: "attacks", policies: policies})
	if err != nil {
		return err
	}
	defer server.stop()
	body, err := review(7000)
	if err != nil {
		return err
	}
	honest, err := load.Connect(ctx, load.Options{
		Requests: []load.Request{{URL: server.url + "/mutate?timeout=10s", Body: body}, {URL: server.url + "/validate?timeout=10s", Body: body}},
		TLS:      r.tls, Connections: 128, Timeout: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	defer honest.Close()
	// As in a cluster, where attackers come later.
	honest.Run(ctx, load.Pace{Duration: time.Second})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var around sync.WaitGroup
	targets := s.attack(ctx, r, server.url, &around)
	var most atomic.Int64
	around.Go(func() { watchMemory(ctx, server.pid(), &most) })
	result := honest.Run(ctx, load.Pace{Rate: s.rate, Duration: s.duration})
	cancel()
	around.Wait()
	return s.judge(w, result, targets, most.Load())
}

// attack starts the attackers: those that wait all the time, from three addresses, and those
// that send much one after the other, from a fourth, since they take as much of this machine
// as of the server.
func (s *soak) attack(ctx context.Context, r *rig, url string, around *sync.WaitGroup) []*attack.Target {
	var targets []*attack.Target
	from := func(address string, every time.Duration) *attack.Target {
		t := &attack.Target{Address: strings.TrimPrefix(url, "https://"), TLS: r.tls, From: address, Path: "/mutate", Pause: every}
		targets = append(targets, t)
		return t
	}
	var heavy []attack.Attack
	for _, a := range attack.All() {
		if a.Heavy {
			heavy = append(heavy, a)
			continue
		}
		for _, address := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
			t := from(address, time.Second)
			around.Go(func() { a.Run(ctx, t, 20) })
		}
	}
	t := from("127.0.0.5", 100*time.Millisecond)
	around.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			turn, stop := context.WithTimeout(ctx, 2*time.Second)
			heavy[i%len(heavy)].Run(turn, t, 4)
			stop()
		}
	})
	return targets
}

// watchMemory keeps the most memory that a process has taken, in bytes.
func watchMemory(ctx context.Context, pid int, most *atomic.Int64) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if now, err := memoryOf(pid); err == nil {
			most.Store(max(most.Load(), now))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *soak) judge(w io.Writer, result *load.Measurement, targets []*attack.Target, memory int64) error {
	var arrived int64
	for _, t := range targets {
		arrived += t.Arrived.Load()
	}
	const mb = 1_000_000
	if _, err := fmt.Fprintf(w, "%d honest requests answered in %s, p50 %s, p99 %s, the slowest %s; %d attempts of attackers; at most %d MB of memory with GOMEMLIMIT=%s\n",
		result.Answered, result.Elapsed.Round(time.Second), result.Latency.Quantile(0.5).Round(100*time.Microsecond), result.Latency.Quantile(0.99).Round(100*time.Microsecond),
		result.Latency.Quantile(1).Round(time.Millisecond), arrived, memory/mb, s.limit); err != nil {
		return err
	}
	var errs []error
	if lost := result.Failed() + result.Unsent; lost > 0 {
		errs = append(errs, fmt.Errorf("%d honest requests are lost, %d of them never sent: %v %v", lost, result.Unsent, result.Errors, result.Samples))
	}
	if result.Answered == 0 || arrived == 0 {
		errs = append(errs, errors.New("nobody asked, or nobody attacked"))
	}
	if memory >= s.memory*mb {
		errs = append(errs, fmt.Errorf("the server takes more than %d MB", s.memory))
	}
	return errors.Join(errs...)
}

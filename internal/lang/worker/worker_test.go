package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/lang/worker"
)

func TestMain(m *testing.M) {
	if log := os.Getenv(forgetful); log != "" {
		forget(log)
	}
	worker.Main(map[worker.Kind]worker.Handler{
		worker.CUE:      {Answer: behave},
		worker.Policies: {Prepare: func() { burn(preparation.String()); prepared = true }, Answer: behave},
	})
	os.Exit(m.Run())
}

// preparation is the processor time that workers of these tests take to prepare for policies, more than one has
// to begin with, and prepared says that this one did.
const preparation = 600 * time.Millisecond

var prepared bool

// kept is what the worker of these tests keeps from one request to the next.
var kept [][]byte

// behave is what the workers of these tests do: what the request says.
func behave(request []byte) []byte {
	what, argument, _ := strings.Cut(string(request), " ")
	switch what {
	case "hang":
		for {
			runtime.Gosched()
		}
	case "allocate":
		for {
			kept = append(kept, bytes.Repeat([]byte("x"), 1<<20))
		}
	case "burn":
		burn(argument)
	case "sleep":
		duration, _ := time.ParseDuration(argument)
		time.Sleep(duration)
	case "nice":
		return []byte(niceness())
	case "keep":
		kept = append(kept, bytes.Repeat([]byte("x"), 40<<20))
	case "recurse":
		return []byte(fmt.Sprint(recurse(1)))
	case "panic":
		panic("oh no")
	case "exit":
		os.Exit(0)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "raw":
		_, _ = syscall.Write(1, []byte(argument))
	case "print":
		fmt.Println("printed by accident")
	case "environment":
		return []byte(strings.Join(os.Environ(), " "))
	case "do":
		return []byte(attempt(argument))
	case "prepared":
		return []byte(fmt.Sprint(prepared))
	case "pid":
		return []byte(fmt.Sprint(os.Getpid()))
	case "leak":
		leak(argument)
	case "complain":
		for {
			_, _ = os.Stderr.WriteString(strings.Repeat("oh no ", 1000))
		}
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		// The signal may be late.
		select {}
	case "close":
		_ = syscall.Close(1)
		select {}
	case "large":
		return bytes.Repeat([]byte("y"), 5<<20)
	}
	return []byte("answer to " + what)
}

// niceness is that of the process.
func niceness() string {
	priority, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	// The system call returns 20 less the niceness.
	return fmt.Sprint(20 - priority)
}

// burn uses the processor for some time.
func burn(text string) {
	duration, _ := time.ParseDuration(text)
	for begin := worker.CPU(); worker.CPU()-begin < duration; {
		runtime.Gosched()
	}
}

// leak starts goroutines that never end; it does not stop if there is no number.
func leak(text string) {
	most, err := strconv.Atoi(text)
	for i := 0; i < most || err != nil; i++ {
		go func() { select {} }()
	}
}

func recurse(n int) int {
	if n < 0 {
		return n
	}
	return 1 + recurse(n+1)%7
}

func pool(t testing.TB, o worker.Options) *worker.Pool {
	t.Helper()
	p := worker.New(o)
	t.Cleanup(p.Close)
	return p
}

// limit is for requests that are to be answered, however busy the machine.
const limit = time.Minute

func do(ctx context.Context, p *worker.Pool, tenant string, limit time.Duration, request string) ([]byte, time.Duration, error) {
	return p.Do(ctx, worker.Job{
		Kind: worker.CUE, Tenant: tenant, Limit: limit, Payload: func() ([]byte, error) { return []byte(request), nil },
	})
}

func ask(t testing.TB, p *worker.Pool, request string) string {
	t.Helper()
	reply, _, err := do(t.Context(), p, "", limit, request)
	if err != nil {
		t.Errorf("%.20q: %v", request, err)
	}
	return string(reply)
}

// Whatever a request does to its worker is its own error, and the next request is answered.
func TestRequestsThatHarm(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 1, Memory: 64 << 20})
	for _, tt := range []struct {
		reason  string
		request string
		limit   time.Duration
		want    error
		text    string
	}{
		{"it never ends", "hang", 200 * time.Millisecond, worker.ErrTimeout, "ended after 200ms"},
		{"it takes all memory", "allocate", limit, worker.ErrMemory, ""},
		{"it starts goroutines forever", "leak", limit, worker.ErrMemory, ""},
		{"it recurses forever", "recurse", limit, worker.ErrMemory, ""},
		{"it writes to its error output forever", "complain", 200 * time.Millisecond, worker.ErrTimeout, ""},
		{"it stops itself", "stop", 200 * time.Millisecond, worker.ErrTimeout, ""},
		{"it closes the pipe and goes on", "close", limit, worker.ErrCrashed, ""},
		{"it panics", "panic", limit, worker.ErrCrashed, "oh no"},
		{"it ends the worker", "exit", limit, worker.ErrCrashed, ""},
		{"the system kills the worker", "kill", limit, worker.ErrMemory, "killed by the system"},
		{"it writes into the pipe", "raw nonsense and more of it", limit, worker.ErrCrashed, ""},
		{"it writes an answer to another request", "raw \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x63a", limit, worker.ErrCrashed, "expected the answer to request"},
		{"it promises a frame of four gigabytes", "raw \xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01a", limit, worker.ErrCrashed, "at most"},
		{"its answer is too large", "large", limit, worker.ErrCrashed, "at most"},
		{"it says hello again", "raw \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01h", limit, worker.ErrCrashed, ""},
	} {
		if raceEnabled && tt.want == worker.ErrMemory && tt.text == "" {
			continue
		}
		reply, _, err := do(t.Context(), p, "", tt.limit, tt.request)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %.40q, %v, want %v", tt.reason, reply, err, tt.want)
		}
		if got := ask(t, p, "next"); got != "answer to next" {
			t.Errorf("after that %q", got)
		}
	}
	if s := p.Stats(); s.Overran != 3 || s.Crashed == 0 || s.Workers != 1 {
		t.Errorf("counted %+v", s)
	}
}

// TestLimitsAreOfProcessorTime: what is found out does not depend on what else the machine does.
func TestLimitsAreOfProcessorTime(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 2})
	for _, background := range []bool{false, true} {
		for _, row := range []struct {
			request string
			want    error
		}{
			{"sleep 1s", nil},
			{"hang", worker.ErrTimeout},
			{"stop", worker.ErrTimeout},
		} {
			_, _, err := p.Do(t.Context(), worker.Job{
				Kind: worker.CUE, Tenant: row.request, Limit: 500 * time.Millisecond, Background: background,
				Payload: func() ([]byte, error) { return []byte(row.request), nil },
			})
			if !errors.Is(err, row.want) {
				t.Errorf("%s, in the background %t: %v, want %v", row.request, background, err, row.want)
			}
		}
	}
}

// TestWorkersArePrepared: what a worker does before its first request is nobody's, however long it takes; it does
// so only for requests that there are.
func TestWorkersArePrepared(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		kind worker.Kind
		want bool
	}{{worker.CUE, false}, {worker.Policies, true}} {
		p := pool(t, worker.Options{Workers: 2})
		var used time.Duration
		reply, _, err := p.Do(t.Context(), worker.Job{
			Kind: row.kind, Tenant: "a", Background: true, Limit: 2 * time.Second, Used: func(cpu time.Duration) { used += cpu },
			Payload: func() ([]byte, error) { return []byte("prepared"), nil },
		})
		if s := p.Stats(); err != nil || string(reply) != fmt.Sprint(row.want) || s.Overran > 0 || used >= preparation {
			t.Errorf("%c: prepared %s, used %s, %v, counted %+v", row.kind, reply, used, err, s)
		}
	}
}

func TestWorkersHaveNothingOfTheirParent(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{})
	if got := ask(t, p, "environment"); strings.Contains(got, "PATH=") || !strings.HasPrefix(got, "USHER_WORKER_MEMORY=") || strings.Count(got, " ") != 1 {
		t.Errorf("environment %q", got)
	}
	if got := ask(t, p, "print"); got != "answer to print" {
		t.Errorf("what is printed is the answer: %q", got)
	}
}

func TestGrownWorkersAreReplaced(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 1, Memory: 160 << 20})
	before := ask(t, p, "pid")
	for range 3 {
		if got := ask(t, p, "keep"); got != "answer to keep" {
			t.Errorf("the last answer is %q", got)
		}
	}
	if after := ask(t, p, "pid"); after == before || p.Stats().Recycled == 0 {
		t.Errorf("worker %s goes on, counted %+v", after, p.Stats())
	}
}

// A caller that goes away does not wait, and takes no worker from others for good.
func TestCallersGoAway(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 1})
	ask(t, p, "x")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("out of time"))
	defer cancel()
	_, _, err := do(ctx, p, "", 300*time.Millisecond, "hang")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "out of time") {
		t.Errorf("error is %v", err)
	}
	if got := ask(t, p, "x"); got != "answer to x" {
		t.Errorf("then %q", got)
	}
	if _, _, err := do(ctx, p, "", limit, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that is done already: %v", err)
	}
}

// What a caller that goes away has begun is ended without it, wherever it was, and the worker stays.
func TestExchangesGoOn(t *testing.T) {
	t.Parallel()
	payload := bytes.Repeat([]byte("x"), 1<<20)
	reply := bytes.Repeat([]byte("y"), 100<<10)
	for _, row := range []struct {
		reason string
		// Of so many bytes, the worker has read the first before the caller goes away, and sent the second.
		read, sent int
	}{
		{"nothing is sent", 0, 0},
		{"half of the request is sent", len(payload) / 2, 0},
		{"half of the head of the answer has arrived", worker.HeaderSize + len(payload), worker.HeaderSize / 2},
		{"half of the answer has arrived", worker.HeaderSize + len(payload), len(reply) / 2},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		requests, answers, await := worker.Exchange(ctx, t, payload)
		whole := worker.AnswerTo(reply)
		step := make(chan error)
		go func() {
			_, err := io.CopyN(io.Discard, requests, int64(row.read))
			if err == nil {
				_, err = answers.Write(whole[:row.sent])
			}
			cancel()
			step <- err
			if _, err = io.CopyN(io.Discard, requests, int64(worker.HeaderSize+len(payload)-row.read)); err == nil {
				_, err = answers.Write(whole[row.sent:])
			}
			step <- err
		}()
		if _, err := await(); !errors.Is(err, worker.ErrGivenUp) {
			t.Errorf("%s: %v", row.reason, err)
		}
		if err := <-step; err != nil {
			t.Error(err)
		}
		got, err := await()
		if err != nil || !bytes.Equal(got, reply) {
			t.Errorf("%s: then %d bytes, %v", row.reason, len(got), err)
		}
		if err := <-step; err != nil {
			t.Error(err)
		}
	}
}

func TestProgramsThatAreNoWorkers(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"/bin/true", "/nonexistent", "/bin/cat"} {
		p := pool(t, worker.Options{Workers: 1}.WithProgram(program))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 {
			if _, _, err := do(ctx, p, "", time.Second, "x"); !errors.Is(err, worker.ErrUnavailable) {
				t.Errorf("%s: %v", program, err)
			}
		}
		if s := p.Stats(); s.Started != 0 || s.Workers != 0 {
			t.Errorf("%s: counted %+v", program, s)
		}
	}
}

func TestIdleWorkersEnd(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Idle: 10 * time.Millisecond})
	p.Hold()
	pid := ask(t, p, "pid")
	p.Release()
	eventually(t, "no worker is left", func() bool { return p.Stats().Workers == 0 })
	if again := ask(t, p, "pid"); again == pid {
		t.Errorf("worker %s is still there", again)
	}
}

func TestCloseEndsWorkers(t *testing.T) {
	t.Parallel()
	p := worker.New(worker.Options{Workers: 2})
	var pid int
	if _, err := fmt.Sscan(ask(t, p, "pid"), &pid); err != nil {
		t.Fatal(err)
	}
	p.Close()
	p.Close()
	if _, _, err := do(t.Context(), p, "", limit, "x"); !errors.Is(err, worker.ErrUnavailable) {
		t.Errorf("error is %v", err)
	}
	eventually(t, "the worker is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	p := pool(t, worker.Options{Workers: 3})
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for range 20 {
				request := fmt.Sprintf("r%d", i)
				reply, _, err := do(t.Context(), p, request, limit, request)
				if err != nil || string(reply) != "answer to "+request {
					t.Errorf("%s: %q, %v", request, reply, err)
				}
			}
		})
	}
	group.Wait()
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to pass that %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// FuzzPipe lets a worker write anything before it answers: the parent takes an answer or ends the
// worker, and goes on.
func FuzzPipe(f *testing.F) {
	for _, raw := range []string{
		"", "a", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01a", "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01lx",
		"\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x02axxxxx", "\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01a", "\x00\x3f\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01axx",
	} {
		f.Add([]byte(raw))
	}
	p := pool(f, worker.Options{Workers: 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _, err := do(t.Context(), p, "", 2*time.Second, "raw "+string(raw))
		if err != nil && !errors.Is(err, worker.ErrCrashed) && !errors.Is(err, worker.ErrTimeout) {
			t.Errorf("error is %v", err)
		}
		// What came too early may be taken for the answer to the next request, but not beyond.
		_, _, _ = do(t.Context(), p, "", limit, "x")
		if reply, _, err := do(t.Context(), p, "", limit, "next"); err != nil && !errors.Is(err, worker.ErrCrashed) {
			t.Errorf("then %q, %v", reply, err)
		}
	})
}

// BenchmarkDo reports the processor time of this process alone, besides the elapsed time.
func BenchmarkDo(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		b.Run(fmt.Sprint(tenants, " tenants"), func(b *testing.B) {
			p := pool(b, worker.Options{})
			names := make([]string, tenants)
			for i := range names {
				names[i] = fmt.Sprint("tenant-", i)
				if _, _, err := do(b.Context(), p, names[i], limit, "x"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			start := worker.CPU()
			for i := 0; b.Loop(); i++ {
				if _, _, err := do(b.Context(), p, names[i%tenants], limit, "x"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(worker.CPU()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// Who observes jobs is told of each once, with its outcome.
func TestDid(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	p := pool(t, worker.Options{Workers: 1, Did: func(_ context.Context, kind, tenant string) func(error) {
		return func(err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(kind, " ", tenant, " ", errors.Is(err, worker.ErrTimeout)))
		}
	}})
	if _, _, err := do(t.Context(), p, "shop", limit, "x"); err != nil {
		t.Error(err)
	}
	if _, _, err := do(t.Context(), p, "", 100*time.Millisecond, "hang"); !errors.Is(err, worker.ErrTimeout) {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(told, ", "); got != "cue shop false, cue  true" {
		t.Errorf("told: %s", got)
	}
}

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usher-dev/usher/internal/lang/worker"
)

// attempt does what no evaluation does, and tells how that went.
func attempt(what string) string {
	var err error
	switch what {
	case "map":
		return mapAll()
	case "open":
		_, err = os.Open("/proc/self/exe")
	case "create":
		_, err = os.Create(filepath.Join("/dev/shm", "usher-worker-test"))
	case "pipe":
		err = syscall.Pipe(make([]int, 2))
	case "connect":
		_, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	case "execute":
		_, err = os.StartProcess("/proc/self/exe", []string{"again"}, &os.ProcAttr{})
	case "fork":
		return fork()
	}
	return fmt.Sprint(err)
}

// mapAll takes memory that Go does not know of, and returns how many megabytes there were.
func mapAll() string {
	const step = 1 << 20
	for n := 0; ; n++ {
		taken, err := syscall.Mmap(-1, 0, step, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return strconv.Itoa(n)
		}
		taken[0] = 1
	}
}

// fork makes a process that does nothing, as nothing but an attack on the evaluator itself could, and
// returns its number.
func fork() string {
	child, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno.Error()
	}
	for child == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PAUSE, 0, 0, 0)
	}
	return strconv.Itoa(int(child))
}

// What a worker can do besides computing is as little as the system allows to take away.
func TestWorkersAreConfined(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there are no limits for workers")
	}
	const memory = 64
	p := pool(t, worker.Options{Workers: 1, Memory: memory << 20})
	if megabytes, err := strconv.Atoi(ask(t, p, "do map")); !raceEnabled && (err != nil || megabytes > memory) {
		t.Errorf("it maps %d MB, %v", megabytes, err)
	}
	p = pool(t, worker.Options{Workers: 1})
	for _, what := range []string{"open", "create", "pipe", "connect", "execute"} {
		if got := ask(t, p, "do "+what); !strings.Contains(got, syscall.EMFILE.Error()) {
			t.Errorf("%s: %s", what, got)
		}
	}
	if got := ask(t, p, "x"); got != "answer to x" {
		t.Errorf("then %q", got)
	}
}

// Processes that a worker has made end with it.
func TestWorkersLeaveNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("it makes processes as one system does")
	}
	p := pool(t, worker.Options{Workers: 1})
	child, err := strconv.Atoi(ask(t, p, "do fork"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := do(t.Context(), p, "", 100*time.Millisecond, "hang"); !errors.Is(err, worker.ErrTimeout) {
		t.Error(err)
	}
	eventually(t, "its process is gone", func() bool { return gone(child) })
}

// gone reports whether a process has ended, whether or not somebody has taken note of that.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// forgetful is the variable by which the program of these tests runs as one that forgot to call Main. It
// names a file.
const forgetful = "USHER_TEST_FORGETFUL"

// forget notes that the program runs, and asks a worker.
func forget(log string) {
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(f, os.Args[0])
	p := worker.New(worker.Options{Workers: 1})
	for range 3 {
		_, _, err = do(context.Background(), p, "", limit, "x")
	}
	fmt.Println(errors.Is(err, worker.ErrUnavailable), err)
	os.Exit(0)
}

// A program that forgot to call Main is not started again by itself, and says so.
func TestForgetfulPrograms(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	command := exec.CommandContext(t.Context(), self)
	command.Env = append(os.Environ(), forgetful+"="+log)
	out, err := command.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), "does not call Main") {
		t.Errorf("%s, %v", out, err)
	}
	if runs, err := os.ReadFile(log); err != nil || strings.Count(string(runs), "\n") != 1 {
		t.Errorf("it ran %d times, %v", strings.Count(string(runs), "\n"), err)
	}
}

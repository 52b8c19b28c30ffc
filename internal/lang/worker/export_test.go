package worker

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// ErrGivenUp is the error of an exchange whose caller no longer waits.
var ErrGivenUp = errGivenUp

// WithProgram returns o with another program to be started as a worker.
func (o Options) WithProgram(path string) Options {
	o.program = path
	return o
}

// Exchange begins to send a payload to a worker that the test plays: it gets requests, and sends answers. Await
// returns the answer.
func Exchange(ctx context.Context, t *testing.T, payload []byte) (requests, answers *os.File, await func() ([]byte, error)) {
	t.Helper()
	requests, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(requests, in, out, answers) })
	p := &process{in: in, out: out, answers: newFrames(out), ended: make(chan struct{}), cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	p.watch.process = p
	p.begin(ctx, CUE, payload, p.cpu(), time.Hour, time.Hour, nil)
	return requests, answers, func() ([]byte, error) {
		reply, _, err := p.await()
		return reply, err
	}
}

// AnswerTo is the answer to the first request, as it is sent.
func AnswerTo(payload []byte) []byte {
	return encodeFrame(frame{id: 1, kind: answer, payload: payload})
}

// HeaderSize is how long a request is without its payload.
const HeaderSize = headerSize

// Package lsp serves the Language Server Protocol for files with policies.
//
// Of each open file the newest text is checked, in the background. Questions about a text are answered one by one,
// each within a time.
package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/usher-dev/usher/internal/assist"
	"github.com/usher-dev/usher/internal/printable"
)

const (
	// mostOpen limits the files that are open, and largestText their sizes.
	mostOpen    = 200
	largestText = 4 << 20
	// mostWaiting limits the requests that are waiting.
	mostWaiting = 100
	// longestAnswer limits the time of a request.
	longestAnswer = 2 * time.Second
)

// ErrExit is the error of a client that ends the server before it asks it to shut down.
var ErrExit = errors.New("the editor has ended the server without shutdown")

// The codes of errors that the protocol adds.
const (
	codeNotInitialized = -32002
	codeCancelled      = -32800
	codeFailed         = -32803
)

// A server is a session with one editor.
type server struct {
	service *assist.Service
	version string
	// notify is there when ready is closed.
	notify func(method string, params any)
	ready  chan struct{}

	mu        sync.Mutex
	documents map[string]*document
	// requests are those that are being answered, and what cancels each.
	requests    map[jsonrpc2.ID]context.CancelFunc
	initialized bool
	shutdown    bool
	// err is the result of the session, once it has ended.
	err   error
	ended chan struct{}
	// turn is for who answers, and checking for who checks.
	turn, checking chan struct{}
}

// Serve serves an editor until it says exit, its input ends, or ctx is done. It returns an error if the input is not
// the protocol, or [ErrExit].
func Serve(ctx context.Context, in io.Reader, out io.Writer, service *assist.Service, version string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{
		service: service, version: version, documents: map[string]*document{}, requests: map[jsonrpc2.ID]context.CancelFunc{},
		ready: make(chan struct{}), ended: make(chan struct{}), turn: make(chan struct{}, 1), checking: make(chan struct{}, 1),
	}
	stream := &stream{ObjectStream: jsonrpc2.NewBufferedStream(pipe{in, out}, codec{})}
	conn := jsonrpc2.NewConn(ctx, stream, s, jsonrpc2.SetLogger(silent{}))
	s.notify = func(method string, params any) { _ = conn.Notify(ctx, method, params) }
	close(s.ready)
	go service.Prepare(ctx)
	defer s.closeAll()
	select {
	case <-s.ended:
		_ = conn.Close()
		return s.err
	case <-conn.DisconnectNotify():
		select {
		case <-s.ended:
			return s.err
		default:
		}
		return stream.failure()
	}
}

// A stream remembers why reading has ended.
type stream struct {
	jsonrpc2.ObjectStream

	mu  sync.Mutex
	err error
}

// ReadObject implements [jsonrpc2.ObjectStream].
func (s *stream) ReadObject(object any) error {
	err := s.ObjectStream.ReadObject(object)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = err
	}
	return err
}

func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

// A pipe is the input and the output of the process, which it leaves open.
type pipe struct {
	io.Reader
	io.Writer
}

// Close implements io.Closer.
func (pipe) Close() error { return nil }

// silent logs nothing: there is nobody who reads it.
type silent struct{}

// Printf implements [jsonrpc2.Logger].
func (silent) Printf(string, ...any) {}

// Handle implements [jsonrpc2.Handler]: notifications in their order, and requests beside them.
func (s *server) Handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) {
	// The connection reads before NewConn returns it.
	<-s.ready
	params := json.RawMessage("{}")
	if r.Params != nil {
		params = *r.Params
	}
	if r.Notif {
		s.notified(ctx, r.Method, params)
		return
	}
	reply := func(result any, err *jsonrpc2.Error) {
		if err != nil {
			_ = conn.ReplyWithError(ctx, r.ID, err)
			return
		}
		_ = conn.Reply(ctx, r.ID, result)
	}
	switch early, answer := s.early(r.Method); {
	case answer != nil:
		reply(nil, answer)
	case early != nil:
		reply(early(), nil)
	default:
		s.begin(ctx, r, params, reply)
	}
}

// early returns what answers the requests of the life of a server, or why a request cannot be answered now.
func (s *server) early(method string) (func() any, *jsonrpc2.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.shutdown:
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: "the server is shutting down"}
	case method == "initialize" && s.initialized:
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: "the server is initialized already"}
	case method == "initialize":
		s.initialized = true
		return func() any {
			return initializeResult{capabilities(), map[string]string{"name": "usher", "version": s.version}}
		}, nil
	case !s.initialized:
		return nil, &jsonrpc2.Error{Code: codeNotInitialized, Message: "the server is not initialized"}
	case method == "shutdown":
		s.shutdown = true
		return func() any { return nil }, nil
	}
	return nil, nil
}

// notified takes a notification. Those that are not known, or cannot be read, are ignored: nobody would get an error.
func (s *server) notified(ctx context.Context, method string, params json.RawMessage) {
	s.mu.Lock()
	initialized := s.initialized
	s.mu.Unlock()
	switch {
	case method == "exit":
		s.exit()
	case method == "$/cancelRequest":
		s.cancel(params)
	case !initialized:
	case method == "textDocument/didOpen":
		var p openParams
		if json.Unmarshal(params, &p) == nil {
			s.open(ctx, p.TextDocument.URI, p.TextDocument.Version, p.TextDocument.Text)
		}
	case method == "textDocument/didChange":
		var p changeParams
		if json.Unmarshal(params, &p) == nil {
			s.change(&p)
		}
	case method == "textDocument/didClose":
		var p documentParams
		if json.Unmarshal(params, &p) == nil {
			s.close(p.TextDocument.URI)
		}
	}
}

func (s *server) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shutdown {
		s.err = ErrExit
	}
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
}

func (s *server) cancel(params json.RawMessage) {
	var p cancelParams
	var id jsonrpc2.ID
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p.ID, &id) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.requests[id]; cancel != nil {
		cancel()
	}
}

// begin answers a request when it is its turn.
func (s *server) begin(ctx context.Context, r *jsonrpc2.Request, params json.RawMessage, reply func(any, *jsonrpc2.Error)) {
	answer := answers()[r.Method]
	if answer == nil {
		reply(nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "there is no such method"})
		return
	}
	var p documentParams
	if err := json.Unmarshal(params, &p); err != nil {
		reply(nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()})
		return
	}
	q := &question{params: p, raw: params, service: s.service}
	if q.content, q.found = s.content(p.TextDocument.URI); q.content == nil {
		reply(nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: "the file is not open"})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestAnswer)
	s.mu.Lock()
	if len(s.requests) >= mostWaiting || s.requests[r.ID] != nil {
		s.mu.Unlock()
		cancel()
		reply(nil, &jsonrpc2.Error{Code: codeFailed, Message: "too many requests are waiting"})
		return
	}
	s.requests[r.ID] = cancel
	s.mu.Unlock()
	go func() {
		defer func() {
			cancel()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.requests, r.ID)
		}()
		select {
		case s.turn <- struct{}{}:
			defer func() { <-s.turn }()
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			reply(nil, &jsonrpc2.Error{Code: codeCancelled, Message: "the request was cancelled, or waited too long"})
			return
		}
		result := q.ask(ctx, answer)
		if err, ok := result.(error); ok {
			reply(nil, &jsonrpc2.Error{Code: codeFailed, Message: printable.Line(err.Error())})
			return
		}
		reply(result, nil)
	}()
}

package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/audit/stream"
)

// TestStreams runs a stream against prepared answers, for an hour at most.
func TestStreams(t *testing.T) {
	t.Parallel()
	complete := answer{to: all, body: added("a", 3) + ready(5), ending: closed}
	cases := []struct {
		reason  string
		answers []answer
		// for is how long the stream runs; 0 means a minute.
		lasts time.Duration
		want  string
	}{
		{
			reason:  "one watch has the objects and the changes",
			answers: []answer{{to: all, body: added("a", 3) + added("b", 2) + ready(5) + modified("a", 6) + deleted("b", 7) + added("c", 8) + bookmark(9)}},
			want:    "begin set(a) set(b) end heard set(a) delete(b) set(c) heard",
		},
		{
			reason:  "the objects change while they are sent",
			answers: []answer{{to: all, body: added("a", 3) + modified("a", 6) + deleted("a", 7) + ready(8)}},
			want:    "begin set(a) set(a) delete(a) end heard",
		},
		{
			reason:  "a watch that the API server ends after some minutes goes on where it was",
			answers: []answer{complete, {to: from(5), body: bookmark(9), ending: closed}, {to: from(9), body: added("b", 10), ending: closed}, {to: from(10)}},
			want:    "begin set(a) end heard set(b) heard",
		},
		{
			reason: "a connection that breaks is no failure if the watch can go on",
			answers: []answer{
				{to: all, body: added("a", 3) + ready(5) + `{"type":"ADD`, ending: errReset}, {to: from(5), body: added("b", 6), ending: errReset}, {to: from(6)},
			},
			want: "begin set(a) end heard set(b) heard",
		},
		{
			reason:  "an API server that restarts",
			answers: []answer{complete, {to: from(5), code: refuses}, {to: from(5), code: refuses}, {to: from(5), body: added("b", 6)}},
			want:    "begin set(a) end heard fail(connection refused) set(b) heard",
		},
		{
			reason:  "a quiet watch that can be resumed counts as confirmed",
			answers: []answer{complete, {to: from(5), code: refuses}, {to: from(5), code: refuses}, {to: from(5)}},
			want:    "begin set(a) end heard fail(connection refused) heard",
		},
		{
			reason:  "410 as an event: what happened in between is lost",
			answers: []answer{complete, {to: from(5), body: failed(http.StatusGone, "Expired"), ending: closed}, {to: all, body: added("b", 8) + ready(9)}},
			want:    "begin set(a) end heard begin set(b) end heard",
		},
		{
			reason:  "410 as the status, too",
			answers: []answer{complete, {to: from(5), code: http.StatusGone, body: status(http.StatusGone, "Gone"), ending: closed}, {to: all, body: ready(9)}},
			want:    "begin set(a) end heard begin end heard",
		},
		{
			reason:  "410 while nothing else works is a failure",
			answers: []answer{complete, {to: from(5), code: refuses}, {to: from(5), body: failed(http.StatusGone, "Expired"), ending: closed}, {to: all, body: ready(9)}},
			want:    "begin set(a) end heard fail(connection refused) fail(because) begin end heard",
		},
		{
			reason:  "other errors in a watch are retried from where it was, and at last nothing is trusted",
			answers: []answer{complete, {to: from(5), body: failed(http.StatusInternalServerError, "InternalError"), ending: closed}, {to: from(5), body: failed(http.StatusInternalServerError, "InternalError"), ending: closed}, {to: from(5), body: failed(http.StatusInternalServerError, "InternalError"), ending: closed}, {to: all, body: ready(9)}},
			want:    "begin set(a) end heard fail(because) begin end heard",
		},
		{
			reason:  "an API server whose data are older than what it said",
			answers: []answer{complete, {to: from(5), body: bookmark(4)}, {to: all, body: ready(4)}},
			want:    "begin set(a) end heard fail(the API server went back from version 5 to 4) begin end heard",
		},
		{
			reason:  "a watch that hangs is opened again, when the API server answers",
			answers: []answer{{to: all, body: added("a", 3) + ready(5)}, {to: alive, body: list(8, "x", "a"), ending: closed}, {to: from(5)}},
			lasts:   4 * time.Minute,
			want:    "begin set(a) end heard",
		},
		{
			reason:  "a watch that hangs, of an API server whose data are older",
			answers: []answer{{to: all, body: added("a", 3) + ready(5)}, {to: alive, body: list(4, "", "a"), ending: closed}, {to: all, body: ready(4)}},
			lasts:   4 * time.Minute,
			want:    "begin set(a) end heard fail(the API server went back from version 5 to 4) begin end heard",
		},
		{
			reason:  "a watch that hangs, and nothing answers",
			answers: []answer{{to: all, body: added("a", 3) + ready(5)}, {to: alive, code: neverAnswers}, {to: alive, code: neverAnswers}, {to: alive, body: list(8, ""), ending: closed}, {to: from(5)}},
			lasts:   5 * time.Minute,
			want:    "begin set(a) end heard fail(the API server does not answer) heard",
		},
		{
			reason:  "the objects are not complete: nothing is removed",
			answers: []answer{{to: all, body: added("a", 3), ending: closed}, {to: all, body: added("a", 3) + ready(5)}},
			want:    "begin set(a) fail(the API server closed the watch before it had sent all objects) begin set(a) end heard",
		},
		{
			reason: "an API server that closes watches of slow readers: it waits for readers of lists",
			answers: []answer{
				{to: all, body: added("a", 3), ending: errReset}, {to: all, body: added("a", 3), ending: closed},
				{to: firstPage, body: list(9, "", "a", "b"), ending: closed}, {to: from(9)},
			},
			want: "begin set(a) fail(the stream was interrupted: connection reset by peer) begin set(a) fail(the API server closed the watch before it had sent all objects) begin set(a) set(b) end heard",
		},
		{
			reason: "before Kubernetes 1.32: a list in pages, then a watch",
			answers: []answer{
				{to: all, code: http.StatusUnprocessableEntity, body: status(http.StatusUnprocessableEntity, "Invalid"), ending: closed},
				{to: firstPage, body: list(9, "more", "a", "b"), ending: closed}, {to: "continue=more&limit=500", body: list(9, "", "c"), ending: closed},
				{to: from(9), body: deleted("c", 10)},
			},
			want: "begin set(a) set(b) set(c) end heard delete(c) heard",
		},
		{
			reason: "an API server that ignores the parameter is not asked again",
			answers: []answer{
				{to: all, body: added("a", 3) + bookmark(5)},
				{to: firstPage, body: list(9, "", "a"), ending: closed},
				{to: from(9), body: failed(http.StatusGone, "Expired"), ending: closed},
				{to: firstPage, body: list(20, "", "b"), ending: closed}, {to: from(20)},
			},
			want: "begin set(a) begin set(a) end heard begin set(b) end heard",
		},
		{
			reason:  "an API server that ignores the parameter, and has no bookmarks",
			answers: []answer{{to: all, body: added("a", 3)}, {to: firstPage, body: list(9, "", "a"), ending: closed}, {to: from(9)}},
			want:    "begin set(a) begin set(a) end heard",
		},
		{
			reason: "the API server forgets the list: all is read at once",
			answers: []answer{
				{to: all, code: http.StatusBadRequest, body: status(http.StatusBadRequest, "BadRequest"), ending: closed},
				{to: firstPage, body: list(9, "more", "a", "b"), ending: closed},
				{to: "continue=more&limit=500", code: http.StatusGone, body: status(http.StatusGone, "Expired"), ending: closed},
				{to: whole, body: list(12, "", "b", "c"), ending: closed}, {to: from(12)},
			},
			want: "begin set(a) set(b) begin set(b) set(c) end heard",
		},
		{
			reason: "a list that breaks",
			answers: []answer{
				{to: all, code: http.StatusBadRequest, body: status(http.StatusBadRequest, "BadRequest"), ending: closed},
				{to: firstPage, body: strings.TrimSuffix(list(9, "", "a"), "]}\n"), ending: closed}, {to: all, body: ready(9)},
			},
			want: "begin set(a) fail(the stream was interrupted: unexpected EOF) begin end heard",
		},
		{
			reason: "a list without a version: nobody knows from where to watch",
			answers: []answer{
				{to: all, code: http.StatusBadRequest, body: status(http.StatusBadRequest, "BadRequest"), ending: closed},
				{to: firstPage, body: `{"items":null}`, ending: closed}, {to: all, body: ready(9)},
			},
			want: "begin fail(a list has no resourceVersion) begin end heard",
		},
		{
			reason: "a kind that may not be read, until it may",
			answers: []answer{
				{to: all, code: http.StatusForbidden, body: status(http.StatusForbidden, "Forbidden"), ending: closed},
				{to: all, code: http.StatusForbidden, body: status(http.StatusForbidden, "Forbidden"), ending: closed}, {to: all, body: ready(9)},
			},
			want: "begin fail(because) begin fail(because) begin end heard",
		},
		{
			reason:  "a kind that may no longer be read: objects of before are kept until it may",
			answers: []answer{complete, {to: from(5), code: http.StatusForbidden, body: status(http.StatusForbidden, "Forbidden"), ending: closed}, {to: from(5), body: added("b", 9)}},
			want:    "begin set(a) end heard fail(because) set(b) heard",
		},
		{
			reason:  "a kind that is gone, and comes back with other objects",
			answers: []answer{complete, {to: from(5), code: http.StatusNotFound, body: status(http.StatusNotFound, "NotFound"), ending: closed}, {to: all, body: added("b", 9) + ready(9)}},
			want:    "begin set(a) end heard fail(because) begin set(b) end heard",
		},
		{
			reason: "an API server that asks for time gets it",
			answers: []answer{
				{to: all, code: http.StatusTooManyRequests, header: map[string]string{"Retry-After": "200", "Content-Type": "text/plain"}, body: "too many requests", ending: closed},
			},
			lasts: 110 * time.Second,
			want:  "begin fail(the server has received too many requests and has asked us to try again later)",
		},
		{reason: "no JSON", answers: []answer{{to: all, body: "}"}, {to: all, body: ready(9)}}, want: "begin fail(the stream is no JSON: unexpected '}') begin end heard"},
		{
			reason:  "an object without a version",
			answers: []answer{complete, {to: from(5), body: `{"type":"ADDED","object":{"metadata":{}}}`}, {to: all, body: ready(9)}},
			want:    "begin set(a) end heard fail(an event has no resourceVersion) begin end heard",
		},
		{
			reason:  "an event of another type",
			answers: []answer{complete, {to: from(5), body: `{"type":"RENAMED","object":{"metadata":{"resourceVersion":"7"}}}`}, {to: all, body: ready(9)}},
			want:    `begin set(a) end heard fail(an event has the type "RENAMED") begin end heard`,
		},
		{
			reason:  "an object that the sink cannot take",
			answers: []answer{complete, {to: from(5), body: added("bad", 6)}, {to: all, body: ready(9)}},
			want:    "begin set(a) end heard fail(bad is bad) begin end heard",
		},
		{
			reason:  "an object that is too large does not take the memory",
			answers: []answer{complete, {to: from(5), body: `{"type":"ADDED","object":{"metadata":{"name":"` + strings.Repeat("x", 2<<20)}, {to: all, body: ready(9)}},
			want:    "begin set(a) end heard fail(an object has more than 1 MiB) begin end heard",
		},
	}
	for _, tc := range cases {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, s := &apiServer{t: t, answers: tc.answers}, &sink{}
				if tc.lasts == 0 {
					tc.lasts = time.Minute
				}
				ctx, cancel := context.WithTimeout(t.Context(), tc.lasts)
				defer cancel()
				stream.New(server.client(), pods, s, stream.Options{MaxObject: 1 << 20}).Run(ctx)
				if diff := cmp.Diff(tc.want, s.String()); diff != "" {
					t.Errorf("sink (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(server.expected(), server.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPausesGrow counts requests for a kind that may not be read.
func TestPausesGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{t: t}
		for range 1000 {
			server.answers = append(server.answers, answer{code: http.StatusForbidden, body: status(http.StatusForbidden, "Forbidden"), ending: closed})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stream.New(server.client(), pods, &sink{}, stream.Options{}).Run(ctx)
		// A pause is half a minute at most, and half of that at least.
		if n := len(server.requests()); n < 120 || n > 250 {
			t.Errorf("%d requests in an hour, want 120 to 250", n)
		}
	})
}

func TestMetadataOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metadata := `{"name":"a","resourceVersion":"3","labels":{"kind":"PartialObjectMetadata"}}`
		object := `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":` + metadata + `}`
		server := &apiServer{t: t, answers: []answer{
			{to: all, code: http.StatusBadRequest, body: status(http.StatusBadRequest, "BadRequest"), ending: closed},
			{to: firstPage, body: `{"metadata":{"resourceVersion":"4"},"items":[` + object + `]}`, ending: closed},
			{to: from(4), body: `{"type":"MODIFIED","object":` + strings.Replace(object, `"3"`, `"5"`, 1) + "}\n" + added("whole", 6)},
		}}
		s := &sink{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stream.New(server.client(), pods, s, stream.Options{MetadataOnly: true}).Run(ctx)
		want := []string{
			"/api/v1/pods application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
			"/api/v1/pods application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
			"/api/v1/pods application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
		}
		if diff := cmp.Diff(want, server.accept); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		objects := []string{
			`{"apiVersion":"v1","kind":"Pod","metadata":` + metadata + `}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":` + strings.Replace(metadata, `"3"`, `"5"`, 1) + `}`,
			`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"whole","resourceVersion":"6"}}`,
		}
		if diff := cmp.Diff(objects, s.raw); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

// TestReread reads all objects again, in the middle of a watch and of a pause.
func TestReread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{t: t, answers: []answer{
			{to: all, body: added("a", 3) + ready(5)}, {to: all, code: http.StatusForbidden, body: status(http.StatusForbidden, "Forbidden"), ending: closed},
			{to: all, body: added("b", 6) + ready(7)},
		}}
		s := &sink{}
		reader := stream.New(server.client(), pods, s, stream.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { reader.Run(ctx) })
		for range 2 {
			synctest.Wait()
			reader.Reread()
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if got, want := s.String(), "begin set(a) end heard begin fail(because) begin set(b) end heard"; got != want {
			t.Errorf("sink: %s, want %s", got, want)
		}
		if diff := cmp.Diff(server.expected(), server.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestSlotsLimitFullReads has a stream that never ends reading, and one that waits for it.
func TestSlotsLimitFullReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := make(chan struct{}, 1)
		slow := &apiServer{t: t, answers: []answer{{to: all, body: added("a", 3)}}}
		quick := &apiServer{t: t, answers: []answer{{to: all, body: ready(3)}}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		o := stream.Options{Slots: slots, Silence: time.Hour}
		running.Go(func() { stream.New(slow.client(), pods, &sink{}, o).Run(ctx) })
		synctest.Wait()
		s := &sink{}
		running.Go(func() { stream.New(quick.client(), pods, s, o).Run(ctx) })
		synctest.Wait()
		if got := s.String(); got != "" {
			t.Errorf("the second stream reads already: %s", got)
		}
		// The first is silent for too long, and so it lists; there is no answer either.
		time.Sleep(2 * time.Minute)
		if got, want := s.String(), "begin end heard"; got != want {
			t.Errorf("the second stream: %s, want %s", got, want)
		}
	})
}

// A sink remembers calls, without those that repeat the last one.
type sink struct {
	mu    sync.Mutex
	calls []string
	raw   []string
}

func (s *sink) callf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := fmt.Sprintf(format, args...)
	if n := len(s.calls); n > 0 && s.calls[n-1] == call && !strings.HasPrefix(call, "set") {
		return
	}
	s.calls = append(s.calls, call)
}

func (s *sink) Begin() { s.callf("begin") }
func (s *sink) End()   { s.callf("end") }
func (s *sink) Heard() { s.callf("heard") }
func (s *sink) Fail(err error) {
	s.callf("fail(%s)", strings.TrimPrefix(err.Error(), "read pods: "))
}
func (s *sink) Set(object []byte) error    { return s.object("set", object) }
func (s *sink) Delete(object []byte) error { return s.object("delete", object) }

func (s *sink) object(what string, object []byte) error {
	var o struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return err
	}
	if o.APIVersion != "v1" || o.Kind != "Pod" {
		return fmt.Errorf("%s is a %s of %s", o.Metadata.Name, o.Kind, o.APIVersion)
	}
	if o.Metadata.Name == "bad" {
		return errors.New("bad is bad")
	}
	s.mu.Lock()
	s.raw = append(s.raw, string(object))
	s.mu.Unlock()
	s.callf("%s(%s)", what, o.Metadata.Name)
	return nil
}

// String has the calls, without confirmations between changes.
func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []string
	for i, call := range s.calls {
		if call == "heard" && i+1 < len(s.calls) && (strings.HasPrefix(s.calls[i+1], "set") || strings.HasPrefix(s.calls[i+1], "delete")) && s.calls[i-1] != "end" {
			continue
		}
		calls = append(calls, call)
	}
	return strings.Join(calls, " ")
}

// TestPage reads one page, however long a list the API server sends.
func TestPage(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, row := range []struct {
		reason string
		answer answer
		fails  error
		want   string
		more   bool
		err    string
	}{
		{reason: "all objects", answer: answer{body: list(9, "", "a", "b"), ending: closed}, want: "a b"},
		{reason: "there are more", answer: answer{body: list(9, "more", "a", "b"), ending: closed}, want: "a b", more: true},
		{reason: "an API server without limits", answer: answer{body: list(9, "", "a", "b", "c", "d"), ending: closed}, want: "a b", more: true},
		{reason: "it may not be read", answer: answer{code: http.StatusForbidden, body: status(http.StatusForbidden, "Forbidden"), ending: closed}, err: "because"},
		{reason: "the reader ends it", answer: answer{body: list(9, "", "a", "b"), ending: closed}, fails: broken, want: "a", err: "broken"},
		{reason: "time is over", answer: answer{body: strings.TrimSuffix(list(9, "", "a"), "]}\n")}, want: "a", err: "the stream was interrupted: context deadline exceeded"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{t: t, answers: []answer{row.answer}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var names []string
				more, err := stream.Page(ctx, server.client(), pods, 2, stream.Options{}, func(object []byte) error {
					var pod struct{ Metadata struct{ Name string } }
					if err := json.Unmarshal(object, &pod); err != nil {
						t.Error(err)
					}
					names = append(names, pod.Metadata.Name)
					return row.fails
				})
				if got := strings.Join(names, " "); got != row.want || more != row.more {
					t.Errorf("read %q, more: %t, want %q, %t", got, more, row.want, row.more)
				}
				if (err == nil) != (row.err == "") || err != nil && err.Error() != row.err {
					t.Errorf("got %v, want %q", err, row.err)
				}
				if diff := cmp.Diff([]string{"limit=2"}, server.requests()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

package admission_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/limit"
)

// Limited is a webhook that allows, with little memory.
func limited(decide usher.DeciderFunc) (*limit.Limiter, http.Handler) {
	log := slog.New(slog.DiscardHandler)
	l := limit.New(limit.Options{Bytes: 4 << 20, Turn: -1, Log: log})
	return l, l.Handler(admission.Validate(decide, admission.Options{Log: log, MaxBody: 2 << 20}))
}

// A review that takes more memory than there is gets a denial, which reaches the user regardless of
// the failurePolicy; one that does not fit now is to be sent again.
func TestReviewsThatTakeTooMuch(t *testing.T) {
	t.Parallel()
	review := fmt.Sprintf(small, "")
	pod := func(spec string) string {
		return strings.Replace(review, `{"kind":"Pod"}`, `{"kind":"Pod","spec":`+spec+`}`, 1)
	}
	list := func(text string, n int) string { return "[" + strings.Repeat(text+",", n) + text + "]" }
	const denied = `"allowed":false,"status":{"metadata":{},"status":"Failure","message":"admission review takes more memory than`
	for _, row := range []struct {
		reason, body string
		code         int
		text         string
	}{
		{"an ordinary one", review, 200, `"allowed":true`},
		{"arrays", pod(list("[]", 100_000)), 200, denied},
		{"objects", pod(list(`{"":0}`, 100_000)), 200, denied},
		{"numbers", pod(list("0", 100_000)), 200, denied},
		{"a string of that size", pod(`"` + strings.Repeat("x", 300_000) + `"`), 200, `"allowed":true`},
		{"a longer string", pod(`"` + strings.Repeat("x", 1_500_000) + `"`), 200, denied},
		{"more than a body may have", pod(`"` + strings.Repeat("x", 3_000_000) + `"`), 200, "admission review is larger than 2097152 bytes"},
		{"groups", strings.Replace(review, `"operation"`, `"userInfo":{"groups":`+list(`""`, 100_000)+`},"operation"`, 1), 200, denied},
		{"before it is known whose review it is", `{"x":"` + strings.Repeat("x", 1_500_000) + `",` + review[1:], 413, "request takes more memory"},
	} {
		l, h := limited(func(context.Context, *usher.Request) (usher.Decision, error) { return usher.Allowed(), nil })
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(row.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != row.code || !strings.Contains(w.Body.String(), row.text) {
			t.Errorf("%s: got %d %.300s, want %d %s", row.reason, w.Code, w.Body, row.code, row.text)
		}
		if use := l.Use(); use.Bytes != 0 || use.Slots != 0 {
			t.Errorf("%s: %+v is not given back", row.reason, use)
		}
	}
}

func TestOverloadIsToBeTriedAgain(t *testing.T) {
	t.Parallel()
	deciding, decided := make(chan struct{}), make(chan struct{})
	_, h := limited(func(context.Context, *usher.Request) (usher.Decision, error) {
		deciding <- struct{}{}
		<-decided
		return usher.Allowed(), nil
	})
	body := strings.Replace(fmt.Sprintf(small, ""), `{"kind":"Pod"}`, fmt.Sprintf(`{"kind":"Pod","spec":%q}`, strings.Repeat("x", 900_000)), 1)
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	first := make(chan int)
	go func() { first <- ask().Code }()
	<-deciding
	if w := ask(); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("beside another one: %d %v %s", w.Code, w.Header(), w.Body)
	}
	close(decided)
	if code := <-first; code != http.StatusOK {
		t.Errorf("the first: %d", code)
	}
}

// The time of a request is also that of decoding its object.
func TestDecodingEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	body := strings.Replace(fmt.Sprintf(small, ""), `{"kind":"Pod"}`, `{"kind":"Pod","spec":[`+strings.Repeat("[],", 20_000)+`0]}`, 1)
	var kept *usher.Object
	h := admission.Validate(usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		<-ctx.Done()
		spec := &usher.Paths{}
		spec.Add("spec")
		if _, err := r.Object.Part(spec); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("decoding after the deadline: %v", err)
		}
		kept = r.Object
		return usher.Decision{}, ctx.Err()
	}), admission.Options{Timeout: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "no decision was reached") {
		t.Errorf("answered %s", w.Body)
	}
	if _, err := kept.Tree(); err != nil {
		t.Errorf("decoding once the request is over: %v", err)
	}
}

// Small requests do not wait for large ones, and large ones wait for each other.
func TestLargeReviewsWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var decided sync.Map
		end := make(chan struct{})
		log := slog.New(slog.DiscardHandler)
		h := limit.New(limit.Options{Log: log}).Proven(admission.Validate(usher.DeciderFunc(func(_ context.Context, r *usher.Request) (usher.Decision, error) {
			decided.Store(r.User.Name, true)
			<-end
			return usher.Allowed(), nil
		}), admission.Options{Log: log}))
		ask := func(user string, size int) {
			body := strings.Replace(fmt.Sprintf(small, ""), `"operation"`, fmt.Sprintf(`"userInfo":{"username":%q},"operation"`, user), 1)
			body = strings.Replace(body, `{"kind":"Pod"}`, fmt.Sprintf(`{"kind":"Pod","spec":%q}`, strings.Repeat("x", size)), 1)
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			go h.ServeHTTP(httptest.NewRecorder(), r)
			synctest.Wait()
		}
		for i := range max(runtime.GOMAXPROCS(0)/2, 1) {
			ask(fmt.Sprintf("large-%d", i), 300_000)
		}
		ask("waits", 300_000)
		ask("small", 100)
		for user, want := range map[string]bool{"large-0": true, "waits": false, "small": true} {
			if _, got := decided.Load(user); got != want {
				t.Errorf("the request of %s is decided: %v, want %v", user, got, want)
			}
		}
		close(end)
		synctest.Wait()
		if _, got := decided.Load("waits"); !got {
			t.Error("what waited is not decided")
		}
	})
}

package limit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usher-dev/usher/internal/limit"
)

// A counter is a handler for large requests, by users. It notes whose turn it is, and ends a turn for each value of next.
type counter struct {
	mu   sync.Mutex
	turn []string
	next chan struct{}
}

func (c *counter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	user := r.URL.Path[1:]
	limit.Turn(r.Body, user)
	c.mu.Lock()
	c.turn = append(c.turn, user)
	c.mu.Unlock()
	<-c.next
}

// come sends requests of a user, which wait one after the other.
func (c *counter) come(h http.Handler, user string, n int) {
	for range n {
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/"+user, sized(1)))
		synctest.Wait()
	}
}

func (c *counter) turns() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.turn)
}

// atOnce is how many large requests are decided at a time.
func atOnce() int { return max(runtime.GOMAXPROCS(0)/2, 1) }

func TestUsersTakeTurnsWithLargeRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, c := quiet(limit.Options{}), &counter{next: make(chan struct{})}
		h := l.Proven(c)
		c.come(h, "many", atOnce()+3)
		c.come(h, "other", 1)
		if got := c.turns(); len(got) != atOnce() {
			t.Fatalf("%d large requests are decided at a time, want %d: %v", len(got), atOnce(), got)
		}
		for range 4 {
			c.next <- struct{}{}
			synctest.Wait()
		}
		if got, want := c.turns()[atOnce():], []string{"other", "many", "many", "many"}; !slices.Equal(got, want) {
			t.Errorf("turns %v, want %v", got, want)
		}
		close(c.next)
		synctest.Wait()
		nothingIsTaken(t, l)
	})
}

func TestTurnsThatDoNotEndHoldNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, c := quiet(limit.Options{Shed: func() { t.Error("shed") }}), &counter{next: make(chan struct{})}
		h := l.Proven(c)
		c.come(h, "many", atOnce())
		c.come(h, "other", 2)
		time.Sleep(time.Second)
		if got := c.turns(); len(got) != atOnce()+2 {
			t.Errorf("%v are decided, want all", got)
		}
		close(c.next)
		synctest.Wait()
		nothingIsTaken(t, l)
	})
}

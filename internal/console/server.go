// Package console serves the page on which policies are tried in a browser, and the API behind it. What the routes
// answer comes from its caller: it decides nothing.
//
// The page is for the user of this machine. Who knows a token gets a cookie for it, once; every other page, user and
// name of the machine is refused.
package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/usher-dev/usher/internal/graceful"
)

// Options configure a [Server].
type Options struct {
	// Port is where the server listens; it is a part of the names by which browsers may call it.
	Port int
	// Routes are what it serves below /api/v1.
	Routes []Route
	// Version is the one that the description of the API has.
	Version string
}

// A Server serves the page and its API. It is safe for concurrent use.
type Server struct {
	hosts  []string
	cookie string
	// session is the value of the cookie.
	session string
	routes  *dispatcher
	handler http.Handler

	mu sync.Mutex
	// token is what gives the cookie; empty once it has.
	token string
}

// New returns a server.
func New(o Options) (*Server, error) {
	port := strconv.Itoa(o.Port)
	s := &Server{
		hosts:   []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port},
		cookie:  "usher-console-" + port,
		session: rand.Text(), token: rand.Text(),
		routes: newDispatcher(),
	}
	files, err := newAssets()
	if err != nil {
		return nil, err
	}
	described, err := describe(o)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	handle := func(method, path string, handler http.Handler) {
		mux.Handle(method+" "+path, handler)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			refuse(w, &Error{http.StatusMethodNotAllowed, "expected the method " + method + ", not " + r.Method})
		})
	}
	handle(http.MethodGet, "/{$}", s.page(files))
	handle(http.MethodGet, "/assets/{name}", http.HandlerFunc(files.serve))
	handle(http.MethodGet, "/api/v1/openapi.json", s.known(func(w http.ResponseWriter, _ *http.Request) { writeBody(w, described) }))
	handle(http.MethodGet, "/api/v1/ping", s.known(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for i := range o.Routes {
		r := &o.Routes[i]
		handle(r.Method, "/api/v1/"+r.Path, s.known(func(w http.ResponseWriter, q *http.Request) { s.routes.serve(w, q, r) }))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, &Error{http.StatusNotFound, "there is nothing at this path"})
	})
	s.handler = s.guard(mux)
	return s, nil
}

// URL returns the address that opens the page, once.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "http://" + s.hosts[0] + "/?token=" + url.QueryEscape(s.token)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve serves connections until ctx ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener, log *slog.Logger) error {
	server := graceful.HTTP(s, log)
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	stop := context.AfterFunc(ctx, func() {
		// Requests end with ctx.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second/2)
		defer cancel()
		_ = server.Shutdown(ending)
		_ = server.Close()
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guard refuses requests of other pages and for other names, and says in every response what the page may do.
func (s *Server) guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w, errCrossOrigin) }))
	next = crossOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policyFor("'self'"))
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Cache-Control", "no-store")
		if !slices.Contains(s.hosts, r.Host) {
			// Another name may lead here: the browser takes its page for the same origin.
			refuse(w, &Error{http.StatusMisdirectedRequest, "this is not the address of the page: use the one that usher console has printed"})
			return
		}
		// The page may be opened from anywhere. All else is for the page.
		if site := r.Header.Get("Sec-Fetch-Site"); r.URL.Path != "/" && site != "" && site != "same-origin" && site != "none" {
			refuse(w, errCrossOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var errCrossOrigin = &Error{http.StatusForbidden, "requests of other pages are refused"}

// policyFor returns the Content-Security-Policy of a page with styles of these sources.
func policyFor(styles string) string {
	return "default-src 'none'; script-src 'self'; style-src " + styles + "; img-src 'self' data:; connect-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
}

// known serves requests that have the cookie.
func (s *Server) known(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie(s.cookie); err != nil {
			refuse(w, &Error{http.StatusUnauthorized, "no cookie: open the address that usher console has printed, which gives it once"})
			return
		}
		if !s.isKnown(r) {
			refuse(w, &Error{http.StatusUnauthorized, "the page belongs to another run of usher console: open the address that it has printed"})
			return
		}
		serve(w, r)
	})
}

func (s *Server) isKnown(r *http.Request) bool {
	cookie, err := r.Cookie(s.cookie)
	return err == nil && subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(s.session)) == 1
}

// page serves the page to who has the cookie, and gives it to who has the token.
func (s *Server) page(files *assets) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := r.URL.Query().Get("token")
		switch {
		case token != "" && (s.take(token) || s.isKnown(r)):
			// The page is served over HTTP, on loopback.
			http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: s.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // without Secure: see above
			// The token does not stay in the address, nor in the history.
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case !s.isKnown(r):
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("<!doctype html><title>usher console</title><p>This address opens the page once. Run <code>usher console</code> again, and open the address that it prints."))
		default:
			files.page(w)
		}
	}
}

// take reports whether a token is the one that gives the cookie, and has not given it.
func (s *Server) take(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		return false
	}
	s.token = ""
	return true
}

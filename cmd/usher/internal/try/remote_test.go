package try_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/usher-dev/usher/cmd/usher/internal/try"
)

// TestUnknownCertificate: a server with a certificate that nobody knows is not waited for.
func TestUnknownCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	err := try.Dial(t.Context(), server.URL, "", time.Hour)
	if err == nil || !strings.Contains(err.Error(), "--ca-file") || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}

// TestLastError: what a server answered is said, not that the time is over.
func TestLastError(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	if err := try.Dial(t.Context(), server.URL, "", time.Second); err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("got %v", err)
	}
}

package authorization_test

import (
	"log/slog"
	"net/http"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
	"github.com/usher-dev/usher/internal/door/doortest"
)

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	doortest.RefusalsDoNotFillTheLog(t, func(log *slog.Logger) http.Handler {
		return authorization.Authorize(usher.DeciderFunc(nil), authorization.Options{Log: log})
	})
}

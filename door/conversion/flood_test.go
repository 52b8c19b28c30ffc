package conversion_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/usher-dev/usher/door/conversion"
	"github.com/usher-dev/usher/internal/door/doortest"
)

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	doortest.RefusalsDoNotFillTheLog(t, func(log *slog.Logger) http.Handler {
		return conversion.Handler(nil, conversion.Options{Log: log})
	})
}

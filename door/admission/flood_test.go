package admission_test

import (
	"log/slog"
	"net/http"
	"testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/internal/door/doortest"
)

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	doortest.RefusalsDoNotFillTheLog(t, func(log *slog.Logger) http.Handler {
		return admission.Validate(usher.DeciderFunc(nil), admission.Options{Log: log})
	})
}

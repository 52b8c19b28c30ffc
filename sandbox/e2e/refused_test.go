package e2e

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/usher-dev/usher/internal/compile/definition/definitiontest"
)

// TestBadManifestsAreRefused tries on an API server what cmd/usher tries on usher check: each
// manifest is refused by the CRD or by Usher, with its sentence.
func TestBadManifestsAreRefused(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	cases, bases, err := definitiontest.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for kind, base := range bases {
		if _, err := r.try(testContext(t), &unstructured.Unstructured{Object: base}); err != nil {
			t.Errorf("%s without changes: %v", kind, err)
		}
	}
	for _, c := range cases {
		_, err := r.try(testContext(t), &unstructured.Unstructured{Object: c.Manifest})
		if err == nil || !strings.Contains(err.Error(), c.Says) {
			t.Errorf("%s: %v, want a refusal with %q", c.Reason, err, c.Says)
			continue
		}
		by := "schema"
		if strings.Contains(err.Error(), "denied the request: ") {
			by = "guard"
		}
		if by == "schema" && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || by != c.By {
			t.Errorf("%s: refused by the %s, want %s: %v", c.Reason, by, c.By, err)
		}
	}
}

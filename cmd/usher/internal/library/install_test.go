package library_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/net"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	commands "github.com/usher-dev/usher/cmd/usher/internal/library"
)

// TestInstallPrintsWarnings: what an API server warns of is printed as kubectl prints it, each once, with its policy.
func TestInstallPrintsWarnings(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPost:
			for range 2 {
				warning, err := net.NewWarningHeader(299, "-", "it would refuse 3 objects")
				if err != nil {
					t.Error(err)
				}
				w.Header().Add("Warning", warning)
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = bytes.NewBufferString(`{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicy","metadata":{"name":"service-types"}}`).WriteTo(w)
		case r.URL.Query().Has("labelSelector"):
			_, _ = bytes.NewBufferString(`{"apiVersion":"usher.dev/v1alpha1","kind":"ClusterObjectPolicyList","items":[]}`).WriteTo(w)
		case r.URL.Path == "/api/v1/namespaces/shop":
			_, _ = bytes.NewBufferString(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`).WriteTo(w)
		case r.URL.Path == "/api/v1/namespaces":
			_, _ = bytes.NewBufferString(`{"apiVersion":"v1","kind":"NamespaceList","items":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}]}`).WriteTo(w)
		case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = bytes.NewBufferString(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","message":"namespaces \"shpo\" not found","code":404}`).WriteTo(w)
		default:
			w.WriteHeader(http.StatusNotFound)
			status := apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("clusterobjectpolicies").GroupResource(), "service-types").Status()
			status.APIVersion, status.Kind = "v1", "Status"
			if err := json.NewEncoder(w).Encode(status); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: '" + server.URL + "'}}]}"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, says bytes.Buffer
	cmd := commands.Command(cli.Streams{Out: &out, Err: &says}, &cobra.Command{Use: "try"})
	cmd.SetArgs([]string{"install", "service-types", "--apply", "--action", "Warn", "--namespaces", "shop,shpo", "--kubeconfig", kubeconfig})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out.String() != "applied service-types\n" || !strings.HasPrefix(says.String(), "warning: --namespaces: namespaces \"shpo\" not found: did you mean shop?\nWarning: service-types: it would refuse 3 objects\nto wait until they are enforced: kubectl wait ") {
		t.Errorf("printed %q and %q", out.String(), says.String())
	}
}

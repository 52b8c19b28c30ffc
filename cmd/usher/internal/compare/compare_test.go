package compare_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/compare"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/printable/printabletest"
)

// TestHostileReports: what policies, logs and clusters say controls no terminal, and is no Markdown.
func TestHostileReports(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{printabletest.Hostile, "a\n| forged | 1 |\n```\n@everyone <script>"} {
		row := impact.Row{
			Kind: diff.Denied, Policy: usher.PolicyRef{Kind: "ObjectPolicy", Namespace: hostile, Name: hostile}, Namespace: hostile, Resource: hostile, User: hostile, Owner: hostile, Requests: 1,
			Example: impact.Example{From: hostile, Name: hostile, Message: hostile}, Names: []string{hostile},
		}
		text, markdown := compare.Printed(row, hostile)
		for _, output := range []string{text, markdown} {
			if found := printabletest.Controls(output); len(found) > 0 || strings.Contains(output, "\n| forged") || strings.Contains(output, "\n@everyone") {
				t.Errorf("%q in\n%s", found, output)
			}
		}
		table, rest, _ := strings.Cut(markdown, "\n\n```")
		if strings.Contains(table, "<script>") && !strings.Contains(table, "`") || strings.Count(rest, "\n```") == 0 {
			t.Errorf("text of others is not shown as code:\n%s", markdown)
		}
	}
}

// logged is an event with a pod, of 7 KB.
func logged(i int) string {
	var env []string
	for k := range 57 {
		env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"the value of it is %d"}`, k, k))
	}
	pod := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-%d","namespace":"ns-%d","resourceVersion":"%d","labels":{"app":"web"}},`+
		`"spec":{"containers":[{"name":"c","image":"registry.example/web:1","resources":{"limits":{"memory":"128Mi"}},"env":[%s]}]}}`, i%5000, i%40, i, strings.Join(env, ","))
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"%d","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/ns-%d/pods","verb":"create",`+
		`"user":{"username":"jane"},"responseStatus":{"code":201},"requestObject":%s,"responseObject":%s}`+"\n", i, i%40, pod, pod)
}

// BenchmarkAuditLog compares two sets of 100 rules on an audit log with events of 7 KB: one in which one rule differs,
// and one in which all do. -benchtime 100000x is a busy day.
func BenchmarkAuditLog(b *testing.B) {
	expressions := []string{
		`object.spec.containers.all(c, c.image.startsWith('registry.example/'))`, `!has(object.spec.hostNetwork) || !object.spec.hostNetwork`,
		`object.spec.containers.all(c, has(c.resources) && 'memory' in c.resources.limits)`, `'app' in object.metadata.labels`, `object.spec.containers.all(c, !c.image.endsWith(':latest'))`,
	}
	folder := func(b *testing.B, changed int) string {
		b.Helper()
		var text strings.Builder
		for i := range 100 {
			more := ""
			if i < changed {
				more = " && object.metadata.name != 'x'"
			}
			_, _ = fmt.Fprintf(&text, "---\napiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: p-%d}\nspec:\n  podTemplates: \"Off\"\n"+
				"  matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n  validations: [{message: not so, expression: \"%s%s\"}]\n", i, expressions[i%len(expressions)], more)
		}
		file := filepath.Join(b.TempDir(), "policies.yaml")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		return file
	}
	for _, changed := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d-changed", changed), func(b *testing.B) {
			name := filepath.Join(b.TempDir(), "audit.log")
			file, err := os.Create(name)
			if err != nil {
				b.Fatal(err)
			}
			buffered := bufio.NewWriter(file)
			for i := range b.N {
				_, _ = buffered.WriteString(logged(i))
			}
			if err := buffered.Flush(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(logged(0))))
			before := cpu(b)
			b.ResetTimer()
			var out, errs bytes.Buffer
			root := func(s cli.Streams) *cobra.Command {
				root := &cobra.Command{Use: "usher"}
				root.AddCommand(compare.Impact(s))
				return root
			}
			args := []string{"impact", folder(b, 0), folder(b, changed), "--requests", name, "--fail-on", "none"}
			if status := cli.Execute(b.Context(), root, cli.Streams{Out: &out, Err: &errs}, args); status != cli.ExitOK || !strings.HasPrefix(out.String(), fmt.Sprint(b.N)) {
				b.Fatal(status, out.String(), errs.String())
			}
			used := cpu(b)
			b.ReportMetric(float64(used.Utime.Nano()+used.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(used.Maxrss)/1024, "peak-MiB")
		})
	}
}

func cpu(b *testing.B) syscall.Rusage {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage
}

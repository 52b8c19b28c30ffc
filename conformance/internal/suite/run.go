package suite

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/test/e2e/framework"

	"github.com/usher-dev/usher/conformance/internal/spec"
)

// Options say what to run, and against which cluster.
type Options struct {
	Kubeconfig string
	// Kubectl is the command that specs call.
	Kubectl string
	// Specs are the whole texts of the specs to run.
	Specs []string
	// Logs is an existing folder for one file a spec.
	Logs string
	// Results takes one line of JSON a spec, as soon as it has ended.
	Results io.Writer
}

// Run runs specs, one after the other. A process can do it once, and standard output is
// upstream's. An error means that there are specs without a result.
func Run(o Options) error {
	r := &runner{options: o, wanted: map[string]bool{}}
	for _, text := range o.Specs {
		r.wanted[text] = true
	}
	if err := r.configure(); err != nil {
		return err
	}
	suite, output := ginkgo.GinkgoConfiguration()
	suite.FocusStrings = exactly(o.Specs)
	// The same order every time.
	suite.RandomSeed = 1
	output.NoColor = true
	output.SilenceSkips = true
	ginkgo.ReportAfterEach(r.report)
	// Whether specs passed is in their results.
	ginkgo.RunSpecs(ignored{}, "", suite, output)
	return r.end()
}

// exactly are expressions that match these texts and no others: ginkgo puts the suite's
// description, which is empty, and a space before the text of a spec.
func exactly(texts []string) []string {
	expressions := make([]string, 0, len(texts))
	for _, text := range texts {
		expressions = append(expressions, "^ "+regexp.QuoteMeta(text)+"$")
	}
	return expressions
}

// ignored stands where a test of Go's would be told of failure.
type ignored struct{}

func (ignored) Fail() {}

// A runner makes results of upstream's reports.
type runner struct {
	options Options

	mu         sync.Mutex
	wanted     map[string]bool
	namespaces []string
	err        error
}

// configure does what upstream's own command does before it runs specs.
func (r *runner) configure() error {
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	framework.RegisterCommonFlags(flags)
	framework.RegisterClusterFlags(flags)
	err := flags.Parse([]string{
		"--kubeconfig=" + r.options.Kubeconfig,
		"--kubectl-path=" + r.options.Kubectl,
		"--provider=skeleton",
		// The cluster does not outlive the run.
		"--delete-namespace=false",
	})
	if err != nil {
		return fmt.Errorf("configure suite: %w", err)
	}
	framework.TestContext.CreateTestingNS = r.makeNamespace
	gomega.RegisterFailHandler(framework.Fail)
	framework.AfterReadingAllFlags(&framework.TestContext)
	return nil
}

// makeNamespace notes which namespaces belong to the spec that runs.
func (r *runner) makeNamespace(ctx context.Context, base string, client kubernetes.Interface, labels map[string]string) (*corev1.Namespace, error) {
	namespace, err := framework.CreateTestingNS(ctx, base, client, labels)
	if namespace != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.namespaces = append(r.namespaces, namespace.Name)
	}
	return namespace, err
}

// report writes the result of a spec, if it is one that is to run.
func (r *runner) report(report types.SpecReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.wanted[report.FullText()] {
		return
	}
	delete(r.wanted, report.FullText())
	result := spec.Result{
		Spec:       describe(report),
		State:      spec.State(report.State.String()),
		Seconds:    report.RunTime.Seconds(),
		Namespaces: r.namespaces,
	}
	result.Log = filepath.Join(r.options.Logs, result.Spec.Slug()+".log")
	r.namespaces = nil
	if result.State != spec.Passed {
		result.Problem, result.At = report.FailureMessage(), location(report.FailureLocation())
	}
	text := fmt.Sprintf("%s\n%s: %s\n\n%s", result.Spec.Text, result.Spec.Location, result.State, reporters.RenderTimeline(report, true))
	r.err = errors.Join(r.err,
		os.WriteFile(result.Log, []byte(text), 0o644),
		json.NewEncoder(r.options.Results).Encode(result))
}

// end says what is missing.
func (r *runner) end() error {
	if r.err != nil {
		return fmt.Errorf("write results: %w", r.err)
	}
	if len(r.wanted) > 0 {
		return fmt.Errorf("run specs: no result for %q", slices.Sorted(maps.Keys(r.wanted)))
	}
	return nil
}

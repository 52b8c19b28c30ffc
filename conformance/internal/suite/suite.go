// Package suite has the specs of Kubernetes' own end-to-end suite that test webhooks. They
// are imported as they were released; nothing of them is copied or changed.
package suite

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	// Registers the specs.
	_ "k8s.io/kubernetes/test/e2e/apimachinery"

	"github.com/usher-dev/usher/conformance/internal/spec"
)

// about selects the specs by the words with which upstream describes them.
var about = regexp.MustCompile(`^\[sig-api-machinery\] (AdmissionWebhook|CustomResourceConversionWebhook) `)

// List returns the specs in the order of upstream's source.
func List() []spec.Spec {
	var reports []types.SpecReport
	for _, report := range ginkgo.PreviewSpecs("").SpecReports {
		if about.MatchString(report.FullText()) {
			reports = append(reports, report)
		}
	}
	slices.SortFunc(reports, func(a, b types.SpecReport) int {
		return cmp.Or(cmp.Compare(a.FileName(), b.FileName()), cmp.Compare(a.LineNumber(), b.LineNumber()))
	})
	specs := make([]spec.Spec, 0, len(reports))
	for _, report := range reports {
		specs = append(specs, describe(report))
	}
	return specs
}

func describe(report types.SpecReport) spec.Spec {
	return spec.New(report.FullText(), location(report.LeafNodeLocation))
}

// location is a place in upstream's source, without the folders of this machine.
func location(at types.CodeLocation) string {
	if at.FileName == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", filepath.Base(at.FileName), at.LineNumber)
}

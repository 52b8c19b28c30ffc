package enforce

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/usher-dev/usher/internal/report/openreports"
	"github.com/usher-dev/usher/internal/serve/auditing"
)

// auditFlags configure the audit of objects that exist.
type auditFlags struct {
	enabled bool
	memory  string
	reports string
	limit   int
	config  auditing.Config
}

func (f *auditFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.enabled, "audit", false, "judge the objects that exist in the cluster, too: one replica reads the kinds that policies select, and needs list and watch on them")
	flags.StringVar(&f.memory, "audit-memory", "64Mi", "limit of the memory for what --audit keeps; above it a changed policy has its kinds read again, and at last objects are left out and counted as errors")
	flags.Float64Var(&f.config.CPU, "audit-cpu", 0.5, "average number of processors that --audit uses at most; lower values delay results")
	flags.StringVar(&f.reports, "reports", reportsOfOpenreports, "write results of --audit into the cluster: openreports writes Reports and ClusterReports of openreports.io, if the cluster has these kinds; off writes nothing")
	flags.IntVar(&f.limit, "report-limit", openreports.DefaultLimit, "number of results in --reports of the whole cluster; excess results are counted, and each namespace gets a fair share")
	flags.BoolVar(&f.config.Secrets, "audit-secrets", false, "let --audit keep what policies read of the data of Secrets; otherwise Secrets are read again when policies change")
}

// The values of --reports.
const (
	reportsOfOpenreports = "openreports"
	reportsOff           = "off"
)

// minAuditMemory is enough for some thousand objects.
const minAuditMemory = 8 << 20

// complete returns nil if objects are not audited.
func (f *auditFlags) complete(given func(flag string) bool, cluster bool) (*auditing.Config, error) {
	if !f.enabled {
		for _, name := range []string{"audit-memory", "audit-cpu", "audit-secrets", "reports", "report-limit"} {
			if given(name) {
				return nil, fmt.Errorf("--%s needs --audit", name)
			}
		}
		return nil, nil
	}
	if !cluster {
		return nil, errors.New("--audit needs a cluster, whose objects it judges: name it with --kubeconfig or --in-cluster")
	}
	memory, err := resource.ParseQuantity(f.memory)
	if err != nil {
		return nil, fmt.Errorf("--audit-memory %s: expected a quantity such as 64Mi", f.memory)
	}
	if f.config.Memory = memory.Value(); f.config.Memory < minAuditMemory {
		return nil, fmt.Errorf("--audit-memory %s: must be at least %dMi", f.memory, minAuditMemory>>20)
	}
	// A comparison with NaN is false.
	if cpu := f.config.CPU; !(cpu >= 0.01 && cpu <= 64) {
		return nil, fmt.Errorf("--audit-cpu %v: must be between 0.01 and 64", cpu)
	}
	switch {
	case f.reports != reportsOfOpenreports && f.reports != reportsOff:
		return nil, fmt.Errorf("--reports %s: use %s or %s", f.reports, reportsOfOpenreports, reportsOff)
	case f.limit < 1:
		return nil, fmt.Errorf("--report-limit %d: must be at least 1; --reports=%s writes none", f.limit, reportsOff)
	case f.reports == reportsOfOpenreports:
		f.config.Reports = f.limit
	}
	c := f.config
	return &c, nil
}

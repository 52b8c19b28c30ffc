package plugin

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// The kind of a [Configuration].
const (
	APIVersion = "apiserver.usher.dev/v1alpha1"
	Kind       = "UsherConfiguration"
)

// A Configuration is what the plugin reads from the admission configuration of a server:
//
//	apiVersion: apiserver.config.k8s.io/v1
//	kind: AdmissionConfiguration
//	plugins:
//	- name: Usher
//	  configuration:
//	    apiVersion: apiserver.usher.dev/v1alpha1
//	    kind: UsherConfiguration
//	    policies: [/etc/usher/policies]
//
// Fields that it does not have are errors.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// Policies are files and folders with policies, which are watched. A relative path
	// begins at the working folder of the server.
	Policies []string `json:"policies,omitempty"`
	// FromAPI says whether to read policies from the API that the server serves or, if it is an
	// extension of another one, from that, in addition to Policies. The default is true if there are no
	// Policies, and false if there are some.
	FromAPI *bool `json:"fromAPI,omitempty"`
	// ProofKeys are files with the keys of policy proofs, 32 bytes each, such as those of the Secret
	// usher-proofs. Policies in the API that need a proof then count only with one by any of them;
	// the first makes proofs. Without keys, what is written is asked about, and no proof is needed.
	ProofKeys []string `json:"proofKeys,omitempty"`
	// FailurePolicy is how to handle a request when a rule fails: Fail (the default) or Ignore.
	FailurePolicy usher.FailurePolicy `json:"failurePolicy,omitempty"`
	// RequestTimeout is how long a decision may take, unless set 10s; RuleTimeout how long the
	// programs of one rule may run for it, unless set 1s.
	RequestTimeout metav1.Duration `json:"requestTimeout,omitempty"`
	RuleTimeout    metav1.Duration `json:"ruleTimeout,omitempty"`
	// FactTTL is how long responses of HTTP services are cached. The default is 10s.
	FactTTL metav1.Duration `json:"factTTL,omitempty"`
	// NamespacePolicies is how many policies of each kind a namespace may have, unless set 100, and
	// NamespacePolicyBytes how long they may be together, unless set 1 MiB. The oldest stay in force.
	// -1 means any number, and any length. Files are not bounded.
	NamespacePolicies    int `json:"namespacePolicies,omitempty"`
	NamespacePolicyBytes int `json:"namespacePolicyBytes,omitempty"`
	// MaxExemptionDuration is how far ahead exemptions may end when they are written, unless set
	// 2160h. 0s means any time.
	MaxExemptionDuration *metav1.Duration `json:"maxExemptionDuration,omitempty"`
	// AllowLocalFacts lets policies call HTTP services on loopback and link-local addresses.
	AllowLocalFacts bool `json:"allowLocalFacts,omitempty"`
	// HTTPFacts are the hosts that cluster policies may ask for facts, all unless set; off is none.
	// NamespacedHTTPFacts are those that policies of a namespace may ask, none unless set.
	HTTPFacts           []string `json:"httpFacts,omitempty"`
	NamespacedHTTPFacts []string `json:"namespacedHTTPFacts,omitempty"`
	// NamespacedKinds are kinds that policies of a namespace may act on, although they are RBAC,
	// policies, Secrets or ServiceAccounts; NamespacedReferences are kinds whose objects they may
	// read in other namespaces.
	NamespacedKinds      []string `json:"namespacedKinds,omitempty"`
	NamespacedReferences []string `json:"namespacedReferences,omitempty"`
}

// defaultFactTTL is the default of `usher serve`.
const defaultFactTTL = 10 * time.Second

// Read reads a configuration and sets its defaults. A nil reader is an empty configuration.
func Read(config io.Reader) (*Configuration, error) {
	c := &Configuration{}
	if config == nil {
		return c, c.complete()
	}
	text, err := io.ReadAll(config)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return c, c.complete()
	}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("read configuration: %w", suggesting(err))
	}
	if c.APIVersion != APIVersion || c.Kind != Kind {
		return nil, fmt.Errorf("read configuration: it is %q %q: expected apiVersion %s and kind %s", c.APIVersion, c.Kind, APIVersion, Kind)
	}
	return c, c.complete()
}

var unknownField = regexp.MustCompile(`unknown field "([^"]*)"$`)

// suggesting adds to the error of an unknown field which one is meant.
func suggesting(err error) error {
	wrong := unknownField.FindStringSubmatch(err.Error())
	if wrong == nil {
		return err
	}
	var names []string
	for field := range reflect.TypeFor[Configuration]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	if meant := rule.Suggestion(wrong[1], names); meant != "" {
		return fmt.Errorf("%w: %s", err, meant)
	}
	return err
}

func (c *Configuration) complete() error {
	switch c.FailurePolicy {
	case "", usher.Fail, usher.Ignore:
	default:
		return fmt.Errorf("read configuration: failurePolicy is %q: write %s or %s", c.FailurePolicy, usher.Fail, usher.Ignore)
	}
	for name, duration := range map[string]metav1.Duration{
		"requestTimeout": c.RequestTimeout, "ruleTimeout": c.RuleTimeout, "factTTL": c.FactTTL,
		"maxExemptionDuration": {Duration: c.longestExemption()},
	} {
		if duration.Duration < 0 {
			return fmt.Errorf("read configuration: %s is %s: it cannot be negative", name, duration.Duration)
		}
	}
	for name, n := range map[string]int{"namespacePolicies": c.NamespacePolicies, "namespacePolicyBytes": c.NamespacePolicyBytes} {
		if n < -1 {
			return fmt.Errorf("read configuration: %s is %d: write a positive number, or -1 for no bound", name, n)
		}
	}
	if _, err := c.limits(); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if c.FactTTL.Duration == 0 {
		c.FactTTL.Duration = defaultFactTTL
	}
	if !c.fromAPI() && len(c.ProofKeys) > 0 {
		return fmt.Errorf("read configuration: proofKeys are for policies in the API: remove them, or set fromAPI to true")
	}
	if !c.fromAPI() && len(c.Policies) == 0 {
		return fmt.Errorf("read configuration: there are no policies: name folders under policies, or set fromAPI to true")
	}
	return nil
}

// limits are what policies may do.
func (c *Configuration) limits() (rule.Limits, error) {
	return rule.ParseLimits(c.HTTPFacts, c.NamespacedHTTPFacts, c.NamespacedKinds, c.NamespacedReferences)
}

// longestExemption is how far ahead exemptions may end; 0 means any time.
func (c *Configuration) longestExemption() time.Duration {
	if c.MaxExemptionDuration != nil {
		return c.MaxExemptionDuration.Duration
	}
	return rule.LongestExemption
}

func (c *Configuration) fromAPI() bool {
	if c.FromAPI != nil {
		return *c.FromAPI
	}
	return len(c.Policies) == 0
}

package openreports

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
)

const (
	// Group and Version are those of the API.
	Group   = "openreports.io"
	Version = "v1alpha1"
	// Source is the source of all reports and results of Usher.
	Source = "usher"
	// NamePrefix is what the names of all reports of Usher begin with; a number follows.
	NamePrefix = "usher-"
	// ManagedByLabel has the value Source in all reports of Usher.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// OmittedAnnotation says how many results about the objects of a namespace are in no report
	// because there are too many. It is in the first report of the namespace.
	OmittedAnnotation = "usher.dev/omitted"

	groupVersion = Group + "/" + Version
)

// A Report is a Report or ClusterReport of openreports.io, with the fields that Usher writes.
type Report struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Source        string         `json:"source,omitempty"`
	Configuration *Configuration `json:"configuration,omitempty"`
	Summary       result.Summary `json:"summary"`
	Results       []Result       `json:"results,omitempty"`
}

// A Configuration says what a report is limited to.
type Configuration struct {
	Limits Limits `json:"limits"`
}

// Limits are the most results of a report, and their statuses.
type Limits struct {
	MaxResults   int             `json:"maxResults,omitempty"`
	StatusFilter []result.Status `json:"statusFilter,omitempty"`
}

// A Result is what a part of a rule says about one object.
type Result struct {
	Source     string                   `json:"source,omitempty"`
	Policy     string                   `json:"policy"`
	Rule       string                   `json:"rule,omitempty"`
	Category   string                   `json:"category,omitempty"`
	Severity   usher.Severity           `json:"severity,omitempty"`
	Timestamp  Timestamp                `json:"timestamp"`
	Result     result.Status            `json:"result"`
	Scored     bool                     `json:"scored,omitempty"`
	Subjects   []corev1.ObjectReference `json:"resources,omitempty"`
	Message    string                   `json:"message,omitempty"`
	Properties map[string]string        `json:"properties,omitempty"`
}

// A Timestamp is when a result was reported first, in its present form.
type Timestamp struct {
	Seconds int64 `json:"seconds"`
	Nanos   int32 `json:"nanos"`
}

// The properties of a [Result].
const (
	// PropertyKind is the kind of the policy.
	PropertyKind = "kind"
	// PropertyPath is the place of the rule in its policy, if the rule has a name.
	PropertyPath = "path"
	// PropertyField is the field of the object that the result is about.
	PropertyField = "field"
	// PropertyActions are what admission would do.
	PropertyActions = "actions"
	// PropertyExemption is the exemption that applies.
	PropertyExemption = "exemption"
)

// reported are the statuses of the results in reports. Others are counted.
func reported() []result.Status {
	return []result.Status{result.Fail, result.Warn, result.Error}
}

func isReported(s result.Status) bool {
	return s == result.Fail || s == result.Warn || s == result.Error
}

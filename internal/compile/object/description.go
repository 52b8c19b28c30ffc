package object

import (
	"cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// annotationSeverity is the annotation with the severity of a policy of Kyverno.
const annotationSeverity = "policies.kyverno.io/severity"

// severityOf returns the severity of validations without one.
func severityOf(s *v1alpha1.ObjectPolicySpec, annotations map[string]string) usher.Severity {
	return cmp.Or(usher.Severity(s.Severity), AnnotatedSeverity(annotations), usher.Severity(v1alpha1.SeverityMedium))
}

// AnnotatedSeverity returns the severity that annotations of a policy name; empty if they name none.
func AnnotatedSeverity(annotations map[string]string) usher.Severity {
	written := annotations[annotationSeverity]
	switch v1alpha1.Severity(written) {
	case v1alpha1.SeverityCritical, v1alpha1.SeverityHigh, v1alpha1.SeverityMedium, v1alpha1.SeverityLow, v1alpha1.SeverityInfo:
		return usher.Severity(written)
	}
	return ""
}

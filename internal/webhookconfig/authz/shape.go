package authz

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	"github.com/usher-dev/usher/internal/rule"
)

const refused = "API servers refuse to start with it"

// shape checks a configuration as API servers do when they start. What is about a field that has an error already
// is left out.
func (k *check) shape(configuration []byte) {
	k.at = ""
	c, err := load.LoadFromData(configuration)
	if err != nil {
		if len(rule.Errors(k.problems)) == 0 {
			k.fail("", err.Error(), refused)
		}
		return
	}
	for _, e := range validation.ValidateAuthorizationConfiguration(authorizationcel.NewDefaultCompiler(), nil, c, types(), sets.New("Webhook")) {
		path := webhookField.ReplaceAllString(e.Field, "$1.webhook.$2")
		if !elsewhere(e) && !slices.ContainsFunc(rule.Errors(k.problems), func(p rule.Problem) bool { return strings.HasPrefix(path, p.Field) }) {
			// Errors of CEL have a picture of the expression below.
			what, _, _ := strings.Cut(e.ErrorBody(), "\n")
			k.fail(path, what, refused)
		}
	}
}

// types are those of authorizers.
func types() sets.Set[string] {
	return sets.New("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")
}

// webhookField finds the fields of a webhook, which validation has beside it.
var webhookField = regexp.MustCompile(`^(authorizers\[\d+\])\.(timeout|authorizedTTL|unauthorizedTTL|subjectAccessReviewVersion|matchCondition.*|failurePolicy|connectionInfo\..*)$`)

// elsewhere reports whether an error is that the kubeconfig is not on this host. It is for those of the API servers.
func elsewhere(e *field.Error) bool {
	file, ok := e.BadValue.(string)
	return ok && strings.HasSuffix(e.Field, ".kubeConfigFile") && filepath.IsAbs(file)
}

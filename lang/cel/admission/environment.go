package admission

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// The names of variables.
const (
	objectName     = "object"
	oldObjectName  = "oldObject"
	paramsName     = "params"
	requestName    = "request"
	namespaceName  = "namespaceObject"
	authorizerName = "authorizer"
	resourceName   = "authorizer.requestResource"
	variablesName  = "variables"
)

// A declared says which variables there are besides those that there always are.
type declared struct {
	params     bool
	authorizer bool
}

// An environments compiles the expressions of one policy at a time. It is made once and used for
// many, because making one takes milliseconds.
type environments struct {
	of map[declared]*cel.Env
	// variables is the type of the variable of that name. Its fields are those of the policy that
	// is being compiled.
	variables *apiservercel.DeclType
}

// idle are environments that nobody uses.
var idle = sync.Pool{}

func takeEnvironments() (*environments, error) {
	if e, ok := idle.Get().(*environments); ok {
		return e, nil
	}
	return newEnvironments()
}

func (e *environments) release() {
	clear(e.variables.Fields)
	idle.Put(e)
}

// newEnvironments declares what API servers declare (k8s.io/apiserver/pkg/admission/plugin/cel).
// Expressions may use all that any version of Kubernetes has: what a policy that is stored says
// stays valid.
func newEnvironments() (*environments, error) {
	e := &environments{of: map[declared]*cel.Env{}, variables: object("kubernetes.variables")}
	request, namespace := requestType(), namespaceType()
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	for _, d := range []declared{{}, {params: true}, {authorizer: true}, {params: true, authorizer: true}} {
		options := []cel.EnvOption{
			cel.Variable(objectName, cel.DynType),
			cel.Variable(oldObjectName, cel.DynType),
			cel.Variable(namespaceName, namespace.CelType()),
			cel.Variable(requestName, request.CelType()),
			cel.Variable(variablesName, e.variables.CelType()),
		}
		if d.params {
			options = append(options, cel.Variable(paramsName, cel.DynType))
		}
		if d.authorizer {
			options = append(options, cel.Variable(authorizerName, library.AuthorizerType), cel.Variable(resourceName, library.ResourceCheckType))
		}
		set, err := base.Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 0),
			EnvOptions:        options,
			DeclTypes:         []*apiservercel.DeclType{e.variables, request, namespace},
		}, environment.StrictCostOpt)
		if err != nil {
			return nil, fmt.Errorf("make CEL environment: %w", err)
		}
		e.of[d] = set.StoredExpressionsEnv()
	}
	return e, nil
}

func object(name string, fields ...*apiservercel.DeclField) *apiservercel.DeclType {
	byName := make(map[string]*apiservercel.DeclField, len(fields))
	for _, f := range fields {
		byName[f.Name] = f
	}
	return apiservercel.NewObjectType(name, byName)
}

func required(name string, t *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField(name, t, true, nil, nil)
}

func optional(name string, t *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField(name, t, false, nil, nil)
}

func listOf(t *apiservercel.DeclType) *apiservercel.DeclType { return apiservercel.NewListType(t, -1) }

func mapOf(t *apiservercel.DeclType) *apiservercel.DeclType {
	return apiservercel.NewMapType(apiservercel.StringType, t, -1)
}

// requestType is BuildRequestType of k8s.io/apiserver/pkg/admission/plugin/cel.
func requestType() *apiservercel.DeclType {
	text := apiservercel.StringType
	kind := object("kubernetes.GroupVersionKind", required("group", text), required("version", text), required("kind", text))
	resource := object("kubernetes.GroupVersionResource", required("group", text), required("version", text), required("resource", text))
	user := object("kubernetes.UserInfo",
		optional("username", text), optional("uid", text), optional("groups", listOf(text)), optional("extra", mapOf(listOf(text))))
	return object("kubernetes.AdmissionRequest",
		required("kind", kind), required("resource", resource), optional("subResource", text),
		required("requestKind", kind), required("requestResource", resource), optional("requestSubResource", text),
		required("name", text), optional("namespace", text), required("operation", text),
		required("userInfo", user), optional("dryRun", apiservercel.BoolType), optional("options", apiservercel.DynType))
}

// namespaceType is BuildNamespaceType of k8s.io/apiserver/pkg/admission/plugin/cel.
func namespaceType() *apiservercel.DeclType {
	text, moment, number := apiservercel.StringType, apiservercel.TimestampType, apiservercel.IntType
	condition := object("kubernetes.NamespaceCondition",
		required("status", text), required("type", text), required("lastTransitionTime", moment), required("message", text), required("reason", text))
	metadata := object("kubernetes.NamespaceMetadata",
		required("name", text), required("generateName", text), required("namespace", text),
		required("labels", mapOf(text)), required("annotations", mapOf(text)), required("UID", text),
		required("creationTimestamp", moment), required("deletionGracePeriodSeconds", number), required("deletionTimestamp", moment),
		required("generation", number), required("resourceVersion", text), required("finalizers", listOf(text)))
	return object("kubernetes.Namespace",
		required("metadata", metadata),
		required("spec", object("kubernetes.NamespaceSpec", required("finalizers", listOf(text)))),
		required("status", object("kubernetes.NamespaceStatus", required("conditions", listOf(condition)), required("phase", text))))
}

package admission

import (
	"sync"

	celgo "github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/usher-dev/usher/internal/lang/cel"
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
	dataName       = "data"
)

// A declared says which variables there are besides those that there always are.
type declared struct {
	params     bool
	authorizer bool
	data       bool
	// patchTypes are the types of mutations.
	patchTypes bool
	// macros says that macros are kept as they are written.
	macros bool
}

// An environments compiles the expressions of one policy at a time. There are as many as policies
// that were compiled at the same time: its programs keep one in memory.
type environments struct {
	// of are the environments that were needed.
	of map[declared]*cel.Environment
	// variables and data are the types of the variables of these names. Their fields are those of
	// the policy that is being compiled.
	variables, data    *apiservercel.DeclType
	request, namespace *apiservercel.DeclType
}

// idle are environments that are not in use, the one used last at the end.
var idle struct {
	sync.Mutex

	environments []*environments
}

// takeEnvironments returns environments for the caller alone, until they are released. Nobody waits
// for anybody else's expressions.
func takeEnvironments() *environments {
	idle.Lock()
	defer idle.Unlock()
	if last := len(idle.environments) - 1; last >= 0 {
		e := idle.environments[last]
		idle.environments = idle.environments[:last]
		return e
	}
	return &environments{
		of: map[declared]*cel.Environment{}, variables: object("kubernetes.variables"), data: object("kubernetes.data"),
		request: requestType(), namespace: namespaceType(),
	}
}

func (e *environments) release() {
	clear(e.variables.Fields)
	clear(e.data.Fields)
	idle.Lock()
	defer idle.Unlock()
	idle.environments = append(idle.environments, e)
}

// with returns the environment that declares what API servers declare
// (k8s.io/apiserver/pkg/admission/plugin/cel), and data.
func (e *environments) with(d declared) (*cel.Environment, error) {
	if known := e.of[d]; known != nil {
		return known, nil
	}
	options := []celgo.EnvOption{
		celgo.Variable(objectName, celgo.DynType),
		celgo.Variable(oldObjectName, celgo.DynType),
		celgo.Variable(namespaceName, e.namespace.CelType()),
		celgo.Variable(requestName, e.request.CelType()),
		celgo.Variable(variablesName, e.variables.CelType()),
	}
	if d.params {
		options = append(options, celgo.Variable(paramsName, celgo.DynType))
	}
	if d.authorizer {
		options = append(options, celgo.Variable(authorizerName, library.AuthorizerType), celgo.Variable(resourceName, library.ResourceCheckType))
	}
	if d.macros {
		options = append(options, celgo.EnableMacroCallTracking())
	}
	if d.data {
		options = append(options, celgo.Variable(dataName, e.data.CelType()))
	}
	all := []environment.VersionedOptions{{
		EnvOptions: options,
		DeclTypes:  []*apiservercel.DeclType{e.variables, e.data, e.request, e.namespace},
	}}
	if d.patchTypes {
		all = append(all, patchTypes())
	}
	made, err := cel.Kubernetes(all...)
	if err != nil {
		return nil, err
	}
	e.of[d] = made
	return made, nil
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

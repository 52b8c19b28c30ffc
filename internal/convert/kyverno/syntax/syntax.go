// Package syntax reads policies of Kyverno, ClusterPolicy and Policy, and exceptions from them, without what they
// mean: each part knows its field, so that readers can name the place.
package syntax

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// A Policy is a ClusterPolicy, or a Policy, which is for one namespace.
type Policy struct {
	Kind, Namespace, Name string
	Annotations           map[string]string
	Spec                  Spec
	// Raw is the object as it was read, for references to its text.
	Raw map[string]any
}

// A Spec is what a policy says. What decides nothing is read and ignored.
type Spec struct {
	Rules []Rule `json:"rules,omitempty"`

	ApplyRules                       string                `json:"applyRules,omitempty"`
	FailurePolicy                    string                `json:"failurePolicy,omitempty"`
	ValidationFailureAction          string                `json:"validationFailureAction,omitempty"`
	ValidationFailureActionOverrides []Override            `json:"validationFailureActionOverrides,omitempty"`
	EmitWarning                      *bool                 `json:"emitWarning,omitempty"`
	Admission                        *bool                 `json:"admission,omitempty"`
	Background                       *bool                 `json:"background,omitempty"`
	WebhookTimeoutSeconds            *int32                `json:"webhookTimeoutSeconds,omitempty"`
	WebhookConfiguration             *WebhookConfiguration `json:"webhookConfiguration,omitempty"`

	MutateExistingOnPolicyUpdate bool `json:"mutateExistingOnPolicyUpdate,omitempty"`
	// Ignored has fields that decide nothing about a request.
	Ignored `json:",inline"`
}

// Ignored are fields that decide nothing about a request.
type Ignored struct {
	SchemaValidation               *bool `json:"schemaValidation,omitempty"`
	GenerateExistingOnPolicyUpdate *bool `json:"generateExistingOnPolicyUpdate,omitempty"`
	GenerateExisting               bool  `json:"generateExisting,omitempty"`
	UseServerSideApply             bool  `json:"useServerSideApply,omitempty"`
}

// An Override is another action in some namespaces.
type Override struct {
	Action            string                `json:"action,omitempty"`
	Namespaces        []string              `json:"namespaces,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// A WebhookConfiguration is how API servers ask about a policy.
type WebhookConfiguration struct {
	FailurePolicy   string                       `json:"failurePolicy,omitempty"`
	TimeoutSeconds  *int32                       `json:"timeoutSeconds,omitempty"`
	MatchConditions []admissionv1.MatchCondition `json:"matchConditions,omitempty"`
}

// A Rule is for the objects that it matches and does not exclude.
type Rule struct {
	// Field is its place, such as spec.rules[0], and Raw its text.
	Field string         `json:"-"`
	Raw   map[string]any `json:"-"`

	Name    string  `json:"name"`
	Context []Entry `json:"context,omitempty"`
	Match   Match   `json:"match"`
	Exclude *Match  `json:"exclude,omitempty"`

	ImageExtractors  map[string]any               `json:"imageExtractors,omitempty"`
	Preconditions    *Conditions                  `json:"preconditions,omitempty"`
	CELPreconditions []admissionv1.MatchCondition `json:"celPreconditions,omitempty"`

	Mutate   *Mutate   `json:"mutate,omitempty"`
	Validate *Validate `json:"validate,omitempty"`
	// Generate and VerifyImages are not read.
	Generate     any   `json:"generate,omitempty"`
	VerifyImages []any `json:"verifyImages,omitempty"`

	ReportProperties       map[string]string `json:"reportProperties,omitempty"`
	SkipBackgroundRequests *bool             `json:"skipBackgroundRequests,omitempty"`
}

// A Match says for which requests a rule is: if Any has blocks one of them, else if All has all of them, else its
// own block.
type Match struct {
	Field string `json:"-"`

	Any   []Block `json:"any,omitempty"`
	All   []Block `json:"all,omitempty"`
	Block `json:",inline"`
}

// A Block holds if all that it says does.
type Block struct {
	Field string `json:"-"`

	Roles        []string  `json:"roles,omitempty"`
	ClusterRoles []string  `json:"clusterRoles,omitempty"`
	Subjects     []Subject `json:"subjects,omitempty"`
	Resources    Resources `json:"resources,omitempty"`
}

// A Subject is a user, a group or a service account.
type Subject = rbacv1.Subject

// Resources are the objects of a block: one value of each list has to fit.
type Resources struct {
	Kinds             []string              `json:"kinds,omitempty"`
	Name              string                `json:"name,omitempty"`
	Names             []string              `json:"names,omitempty"`
	Namespaces        []string              `json:"namespaces,omitempty"`
	Annotations       map[string]string     `json:"annotations,omitempty"`
	Selector          *metav1.LabelSelector `json:"selector,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	Operations        []string              `json:"operations,omitempty"`
}

// An Entry of a context is a variable of expressions.
type Entry struct {
	Field string `json:"-"`

	Name            string           `json:"name"`
	ConfigMap       *ConfigMap       `json:"configMap,omitempty"`
	APICall         *APICall         `json:"apiCall,omitempty"`
	ImageRegistry   any              `json:"imageRegistry,omitempty"`
	Variable        *Variable        `json:"variable,omitempty"`
	GlobalReference *GlobalReference `json:"globalReference,omitempty"`
}

// A ConfigMap is the one that an entry reads.
type ConfigMap struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// An APICall is a request whose response an entry reads.
type APICall struct {
	URLPath  string `json:"urlPath,omitempty"`
	Method   string `json:"method,omitempty"`
	Data     []any  `json:"data,omitempty"`
	Service  any    `json:"service,omitempty"`
	Default  *Value `json:"default,omitempty"`
	JMESPath string `json:"jmesPath,omitempty"`
}

// A Variable is a value, or what a path selects in it, or in all that expressions read.
type Variable struct {
	Value    *Value `json:"value,omitempty"`
	JMESPath string `json:"jmesPath,omitempty"`
	Default  *Value `json:"default,omitempty"`
}

// A GlobalReference reads data that Kyverno keeps.
type GlobalReference struct {
	Name     string `json:"name"`
	JMESPath string `json:"jmesPath,omitempty"`
}

// Conditions hold if one of Any and all of All hold. Any is nil if it is not written; an empty one never holds.
type Conditions struct {
	Field string `json:"-"`

	Any []Condition `json:"any,omitempty"`
	All []Condition `json:"all,omitempty"`

	// listed says that it is written as a list, which is All.
	listed bool
}

// A Condition compares two values. Either is null if it is not written.
type Condition struct {
	Field string `json:"-"`

	Key      Value  `json:"key,omitzero"`
	Operator string `json:"operator,omitempty"`
	Value    Value  `json:"value,omitzero"`
	Message  string `json:"message,omitempty"`
}

// A Validate is what objects have to be like: the first of Manifests, PodSecurity, CEL, Deny, Pattern, AnyPattern
// and Foreach that is written.
type Validate struct {
	Field string `json:"-"`

	FailureAction           string     `json:"failureAction,omitempty"`
	FailureActionOverrides  []Override `json:"failureActionOverrides,omitempty"`
	AllowExistingViolations *bool      `json:"allowExistingViolations,omitempty"`
	Message                 string     `json:"message,omitempty"`

	Manifests   any          `json:"manifests,omitempty"`
	Foreach     []Foreach    `json:"foreach,omitempty"`
	Pattern     *Pattern     `json:"pattern,omitempty"`
	AnyPattern  *Pattern     `json:"anyPattern,omitempty"`
	Deny        *Deny        `json:"deny,omitempty"`
	PodSecurity *PodSecurity `json:"podSecurity,omitempty"`
	CEL         *CEL         `json:"cel,omitempty"`
	Assert      any          `json:"assert,omitempty"`
}

// A Deny refuses what its conditions hold for; everything if there are none.
type Deny struct {
	Conditions *Conditions `json:"conditions,omitempty"`
}

// A Foreach validates each element of a list.
type Foreach struct {
	Field string `json:"-"`

	List          string      `json:"list,omitempty"`
	ElementScope  *bool       `json:"elementScope,omitempty"`
	Context       []Entry     `json:"context,omitempty"`
	Preconditions *Conditions `json:"preconditions,omitempty"`
	Pattern       *Pattern    `json:"pattern,omitempty"`
	AnyPattern    *Pattern    `json:"anyPattern,omitempty"`
	Deny          *Deny       `json:"deny,omitempty"`
	Foreach       []Foreach   `json:"foreach,omitempty"`
}

// A PodSecurity is a level of the pod security standards, without some of its controls.
type PodSecurity struct {
	Level   string    `json:"level,omitempty"`
	Version string    `json:"version,omitempty"`
	Exclude []Control `json:"exclude,omitempty"`
}

// A Control of the pod security standards is left out, for some images, or for some values of a field.
type Control struct {
	ControlName     string   `json:"controlName"`
	Images          []string `json:"images,omitempty"`
	RestrictedField string   `json:"restrictedField,omitempty"`
	Values          []string `json:"values,omitempty"`
}

// A CEL validates as a ValidatingAdmissionPolicy does.
type CEL struct {
	Generate         *bool                         `json:"generate,omitempty"`
	Expressions      []admissionv1.Validation      `json:"expressions,omitempty"`
	ParamKind        *admissionv1.ParamKind        `json:"paramKind,omitempty"`
	ParamRef         *admissionv1.ParamRef         `json:"paramRef,omitempty"`
	AuditAnnotations []admissionv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	Variables        []admissionv1.Variable        `json:"variables,omitempty"`
}

// A Mutate changes objects.
type Mutate struct {
	Field string `json:"-"`

	MutateExistingOnPolicyUpdate *bool           `json:"mutateExistingOnPolicyUpdate,omitempty"`
	Targets                      []any           `json:"targets,omitempty"`
	PatchStrategicMerge          *Pattern        `json:"patchStrategicMerge,omitempty"`
	PatchesJSON6902              string          `json:"patchesJson6902,omitempty"`
	Foreach                      []ForeachMutate `json:"foreach,omitempty"`
}

// A ForeachMutate changes each element of a list.
type ForeachMutate struct {
	Field string `json:"-"`

	List                string          `json:"list,omitempty"`
	Order               string          `json:"order,omitempty"`
	Context             []Entry         `json:"context,omitempty"`
	Preconditions       *Conditions     `json:"preconditions,omitempty"`
	PatchStrategicMerge *Pattern        `json:"patchStrategicMerge,omitempty"`
	PatchesJSON6902     string          `json:"patchesJson6902,omitempty"`
	Foreach             []ForeachMutate `json:"foreach,omitempty"`
}

// An Exception is a PolicyException: rules that are not for some objects.
type Exception struct {
	Namespace, Name string
	Spec            ExceptionSpec
}

// An ExceptionSpec is what an exception says.
type ExceptionSpec struct {
	Background  *bool         `json:"background,omitempty"`
	Match       Match         `json:"match"`
	Conditions  *Conditions   `json:"conditions,omitempty"`
	Exceptions  []ExceptRules `json:"exceptions"`
	PodSecurity []Control     `json:"podSecurity,omitempty"`
}

// ExceptRules are rules of a policy.
type ExceptRules struct {
	PolicyName string   `json:"policyName"`
	RuleNames  []string `json:"ruleNames"`
}

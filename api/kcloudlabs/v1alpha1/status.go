package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PolicyStatus reports whether a policy is enforced. Usher writes it. Changes by others have no
// effect.
type PolicyStatus struct {
	// ObservedGeneration is the metadata.generation that the other fields describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Action says what follows from the policy: Deny, Warn, Audit, Mutate, or several of them. Of an
	// authorization policy it is empty.
	// +optional
	Action string `json:"action,omitempty"`
	// Kinds are the resources or the kinds that the policy selects, as they are written there; the
	// first few if there are many.
	// +optional
	Kinds string `json:"kinds,omitempty"`
	// Conditions are Compiled and Enforced; Proven if the policy needs a proof; and Working once a
	// rule has failed on a request. The observedGeneration of Enforced is the generation in force,
	// which is an older one while the newest does not compile.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Problems lists what is wrong with the policy, errors first.
	// +optional
	// +listType=atomic
	Problems []PolicyProblem `json:"problems,omitempty"`
	// LastError is one line about what is wrong with the policy: the first error among the
	// problems, else how a rule fails on requests, else the first warning.
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// PolicyProblem is a problem with a policy.
type PolicyProblem struct {
	// Severity is error or warning. With an error, the policy cannot be enforced as written.
	Severity string `json:"severity"`
	// Field is the path of the field, such as spec.overrideRules[0].overriders.cue.
	// +optional
	Field string `json:"field,omitempty"`
	// What is the description of the problem.
	What string `json:"what"`
	// Do is how to solve the problem.
	// +optional
	Do string `json:"do,omitempty"`
}

// The types of conditions of a policy.
const (
	// ConditionCompiled: the policy can be enforced as it is written.
	ConditionCompiled = "Compiled"
	// ConditionEnforced: every replica enforces the observed generation of the condition, and API
	// servers call the replicas.
	ConditionEnforced = "Enforced"
	// ConditionProven: the writer of the policy is known to have had the right to write it.
	// Only kinds that need a proof have it.
	ConditionProven = "Proven"
	// ConditionWorking: False while a rule of the policy fails on requests, True when it works
	// again, and Unknown when the policy was edited and no request has met the new version, or when it is suspended. It
	// is absent until a rule fails.
	ConditionWorking = "Working"
)

// The reasons of conditions of a policy.
const (
	// ReasonProven: the policy has a valid proof.
	ReasonProven = "Proven"
	// ReasonUnproven: the policy has no valid proof. Enforced says whether it is in force.
	ReasonUnproven = "Unproven"
	// ReasonCompiled: the policy compiles.
	ReasonCompiled = "Compiled"
	// ReasonDoesNotCompile: the newest version does not compile. On Enforced, it also means that no
	// version is in force.
	ReasonDoesNotCompile = "DoesNotCompile"
	// ReasonCompileTimeout, ReasonCompileMemory and ReasonCompileCrash: compiling the newest version
	// was stopped, because it took too long or too much memory, or because it crashed. The message
	// ends with what identifies the version, which is not compiled again before it changes, or before
	// an hour is over.
	ReasonCompileTimeout = "CompileTimeout"
	ReasonCompileMemory  = "CompileMemory"
	ReasonCompileCrash   = "CompileCrash"
	// ReasonPending: the newest version is not compiled yet. On Enforced, it also means that until
	// then every evaluation of the policy fails, and the failure policy applies.
	ReasonPending = "Pending"
	// ReasonTooManyPolicies: the policy is not in force, because its namespace has too many
	// policies.
	ReasonTooManyPolicies = "TooManyPolicies"
	// ReasonEnforced: every live replica enforces the newest version.
	ReasonEnforced = "Enforced"
	// ReasonNotEnforced: the policy compiles, but another policy replaces it, such as one of the
	// same name in a file.
	ReasonNotEnforced = "NotEnforced"
	// ReasonSuspended: the policy decides nothing, because spec.suspend or the annotation
	// usher.dev/suspend says so. The message says who set it.
	ReasonSuspended = "Suspended"
	// ReasonResumed is that of the Event when a policy is no longer suspended.
	ReasonResumed = "Resumed"
	// ReasonNoSuchKind: the cluster has none of the kinds that the policy selects.
	ReasonNoSuchKind = "NoSuchKind"
	// ReasonMatchesNothing: the cluster has kinds that the policy selects, but no request for them is one that the
	// policy is for: a policy of a namespace does not act on Secrets, for example.
	ReasonMatchesNothing = "MatchesNothing"
	// ReasonNotTried: it is not known yet whether the cluster has what the policy selects.
	ReasonNotTried = "NotTried"
	// ReasonPropagating: a live replica does not enforce the newest version yet.
	ReasonPropagating = "Propagating"
	// ReasonNotRegistered: the webhook configurations could not be written, so that API servers may
	// not send what the policy selects.
	ReasonNotRegistered = "NotRegistered"
	// ReasonNotCalled: API servers do not call the webhooks, or get no response from them.
	ReasonNotCalled = "NotCalled"
	// ReasonNotServed: the policy is about requests to authorize, and no replica answers authorization webhooks.
	ReasonNotServed = "NotServed"
	// ReasonNoServer: the last server has stopped.
	ReasonNoServer = "NoServer"
	// ReasonUninstalled: the webhook configurations have been deleted.
	ReasonUninstalled = "Uninstalled"
	// ReasonNotVerified: every live replica enforces the newest version, but it is unknown whether
	// API servers call the replicas.
	ReasonNotVerified = "NotVerified"
	// ReasonLastGoodVersion: the newest version does not compile, an older one is in force.
	ReasonLastGoodVersion = "LastGoodVersion"
	// ReasonRuleFails: a rule of the version in force fails on requests.
	ReasonRuleFails = "RuleFails"
	// ReasonRecovered: the failed rules, or those of a newer version, have worked since, or have not failed for an hour.
	ReasonRecovered = "Recovered"
	// ReasonEdited: rules of an older version failed, and no request has met this one yet.
	ReasonEdited = "Edited"
	// ReasonReplicasDiffer: the newest version does not compile, and replicas enforce different
	// older ones.
	ReasonReplicasDiffer = "ReplicasDiffer"
)

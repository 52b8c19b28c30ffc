package admission

import (
	"slices"

	celgo "github.com/google/cel-go/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/rule"
)

// reads are what the expressions of a policy read.
type reads struct {
	cel.Reads

	// object, old and params are the paths of the values that are read, once all expressions are known.
	object, old, params []readPath
	// plain says that expressions read nothing else but params, once all expressions are known.
	plain bool
}

// ReadPaths returns the paths that expressions read in the object and in the old object, and those
// that mutations change. Apply configurations read everything: API servers check the whole object
// before they merge.
func (p *Program) ReadPaths() (object, old *usher.Paths) {
	object = p.reads.Paths(objectName)
	object.Merge(&p.patched)
	old = p.reads.Paths(oldObjectName)
	for i := range p.source.Data {
		if p.source.Data[i].Whole {
			object.Add()
			old.Add()
		}
	}
	for _, e := range slices.Concat(p.validations, p.mutations) {
		addPaths(e.other, object, old)
	}
	return object, old
}

// addPaths adds the paths that a program of another language reads.
func addPaths(p rule.Program, object, old *usher.Paths) {
	switch selective, ok := p.(rule.Selective); {
	case p == nil:
	case ok:
		now, before := selective.ReadPaths()
		object.Merge(now)
		old.Merge(before)
		// What it knows as the object is the old one if the object is deleted.
		old.Merge(now)
	default:
		object.Add()
		old.Add()
	}
}

// DependsOn returns on what the values of the expressions depend besides objects and params.
func (p *Program) DependsOn(operation usher.Operation) rule.Dependencies {
	all := p.reads.ofRequest()
	if p.reads.Mentions(namespaceName) {
		all |= rule.OnNamespace | rule.OnObjects
	}
	if p.reads.Mentions(authorizerName) || p.reads.Mentions(resourceName) {
		all |= rule.OnAccess | rule.OnUser
	}
	if p.reads.Mentions(resourceName) {
		all |= rule.OnName | rule.OnNamespace
	}
	if p.reads.Mentions(dataName) {
		for i := range p.source.Data {
			all |= p.source.Data[i].DependsOn
		}
	}
	for i := range p.source.Mutations {
		if p.source.Mutations[i].Type == ApplyConfiguration {
			// The structure of the kind may be that of its definition.
			all |= rule.OnObjects
		}
	}
	for _, e := range slices.Concat(p.validations, p.mutations) {
		all |= rule.DependenciesOf(e.other, operation)
	}
	return all
}

// ofRequest returns what the expressions read of the variable request.
func (r *reads) ofRequest() rule.Dependencies {
	var all rule.Dependencies
	paths := r.Paths(requestName)
	for field, on := range map[string]rule.Dependencies{
		"userInfo": rule.OnUser, "options": rule.OnOptions, "dryRun": rule.OnDryRun, "name": rule.OnName, "namespace": rule.OnNamespace,
	} {
		if paths.Meets(field) {
			all |= on
		}
	}
	return all
}

// limits are bounds of the costs of a policy.
type limits struct {
	// each is that of the most expensive expression; the others are of all expressions that have a
	// budget in common.
	each, variables, conditions, validations, annotations cel.Bound
	// small is up to where no budget can be exceeded.
	small cel.Limit
}

// within reports whether no budget can be exceeded for what has that size. Variables are evaluated
// for validations and again for messages.
func (l *limits) within(s cel.Size) bool {
	variables := l.variables.At(s)
	return l.each.At(s) <= celconfig.PerCallLimit &&
		l.conditions.At(s)+variables <= celconfig.RuntimeCELCostBudgetMatchConditions &&
		l.validations.At(s)+2*variables <= celconfig.RuntimeCELCostBudget &&
		l.annotations.At(s)+variables <= celconfig.RuntimeCELCostBudget
}

// An analysis finds out what the expressions of a policy read, and bounds their cost.
type analysis struct {
	reads  reads
	limits limits
	// What names are.
	measures         map[string]cel.Measure
	sources, origins map[string]cel.Provenance
	// added are the expressions that are no variables, and defined the variables.
	added   []share
	defined []share
	// own is the bound of the expressions that have not been added to limits.
	own cel.Bound
	// What the last expression reads, and its value. It is read, unless it is that of a variable.
	names cel.Reads
	value cel.Measure
	from  cel.Provenance
}

func newAnalysis() analysis {
	a := analysis{
		measures: map[string]cel.Measure{variablesName: cel.Fields(nil)},
		sources:  map[string]cel.Provenance{}, origins: map[string]cel.Provenance{},
	}
	for _, name := range []string{objectName, oldObjectName, paramsName, requestName, namespaceName} {
		a.measures[name], a.sources[name] = cel.Input(), cel.Variable(name)
	}
	for _, name := range []string{authorizerName, resourceName} {
		a.sources[name] = cel.Variable(name)
	}
	a.sources[variablesName], a.sources[dataName] = cel.Variable(variablesName), cel.Variable(dataName)
	return a
}

// add adds an expression, or one that does not compile: nil.
func (a *analysis) add(ast *celgo.Ast) {
	a.reads.AddValue(a.from)
	a.names, a.value, a.from = cel.Reads{}, cel.AtMost(1), cel.Provenance{}
	a.added = append(a.added, share{})
	if ast == nil {
		return
	}
	var bound cel.Bound
	bound, a.value = cel.BoundOf(ast, a.measures)
	a.own, a.limits.each = a.own.Plus(bound), a.limits.each.Or(bound)
	a.names.Add(ast, a.sources)
	uses, whole := variablesIn(ast)
	a.added[len(a.added)-1] = share{bound: bound, uses: uses, whole: whole, names: a.names, mutable: hasQuantities(ast)}
	a.from = a.reads.Add(ast, a.sources)
}

// into adds the bound of the expressions that were added since it was called last to one that they
// share.
func (a *analysis) into(shared *cel.Bound) {
	a.reads.AddValue(a.from)
	a.from = cel.Provenance{}
	*shared, a.own = shared.Plus(a.own), cel.Bound{}
}

// variable makes the last expression a variable, and returns what its value depends on.
func (a *analysis) variable(name string, before []variable) has {
	last := len(a.added) - 1
	a.added[last].name = name
	if a.from.HasFields() {
		a.added[last].value.AddValue(a.from)
	}
	a.added, a.defined = a.added[:last], append(a.defined, a.added[last])
	if a.from.HasFields() {
		// The value may be that of all variables.
		a.reads.AddValue(a.from)
		a.from = cel.Provenance{}
	}
	a.origins[name] = a.from
	a.from = cel.Provenance{}
	a.into(&a.limits.variables)
	all := a.measures[variablesName]
	all.Add(name, a.value)
	a.measures[variablesName] = all
	a.sources[variablesName] = cel.VariableFields(variablesName, a.origins)
	var depends has
	for name, h := range map[string]has{
		requestName: asConditions, namespaceName: withNamespace, authorizerName: withAuthorizer, resourceName: withAuthorizer,
	} {
		if a.names.Mentions(name) {
			depends |= h
		}
	}
	if a.names.Mentions(variablesName) {
		for i := range before {
			depends |= before[i].has
		}
	}
	return depends
}

package authorization

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// newEnvironment is that of Kubernetes with a request.
func newEnvironment() (*cel.Environment, error) {
	return cel.Kubernetes(environment.VersionedOptions{EnvOptions: []celgo.EnvOption{
		func(env *celgo.Env) (*celgo.Env, error) {
			return celgo.CustomTypeProvider(&provider{env.CELTypeProvider()})(env)
		},
		celgo.Variable(requestName, requestType),
		selects("selects", (*request).selectsLabel),
		selects("selectsField", (*request).selectsField),
	}})
}

// selects declares request.NAME(key, value).
func selects(name string, ask func(r *request, key, value string) bool) celgo.EnvOption {
	return celgo.Function(name, celgo.MemberOverload("request_"+name+"_string_string",
		[]*celgo.Type{requestType, celgo.StringType, celgo.StringType}, celgo.BoolType,
		celgo.FunctionBinding(func(args ...ref.Val) ref.Val {
			r, ok := args[0].(*request)
			key, isKey := args[1].(types.String)
			value, isValue := args[2].(types.String)
			if !ok || !isKey || !isValue {
				return types.NoSuchOverloadErr()
			}
			return types.Bool(ask(r, string(key), string(value)))
		})))
}

// Command apiserver is a small API server with Usher's policies in it: it serves one group of
// its own, shop.example.com, from etcd, beside the API server of a cluster.
//
//	apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=8443 \
//	  --kubeconfig=$KUBECONFIG --authentication-kubeconfig=$KUBECONFIG --authorization-kubeconfig=$KUBECONFIG \
//	  --admission-control-config-file=admission.yaml
//
// Four lines make it obey policies, see newOptions, and one keeps it from being ready without them. With --authorization-policies it asks policies who may do what, too: see
// authorize.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/examples/apiserver/shop"
	v1 "github.com/usher-dev/usher/examples/apiserver/shop/v1"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/plugin"
	"github.com/usher-dev/usher/source/dir"
)

func main() {
	// Policies may need CUE's evaluator, which runs in processes of its own.
	live.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

// newOptions are the recommended ones, with the chain NamespaceLifecycle, Usher, and the
// policies and webhooks of the API.
func newOptions() (*options.RecommendedOptions, *plugin.Readiness) {
	o := options.NewRecommendedOptions("/registry/"+shop.Group, shop.Codecs.LegacyCodec(v1.SchemeGroupVersion))
	ready := plugin.Register(o.Admission.Plugins)
	o.Admission.RecommendedPluginOrder = plugin.Order(o.Admission.RecommendedPluginOrder)
	return o, ready
}

func run(ctx context.Context, args []string) error {
	o, ready := newOptions()
	flags := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	o.AddFlags(flags)
	folder := flags.String("authorization-policies", "", "folder with authorization policies, which are asked before the authorizer of the cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := utilerrors.NewAggregate(o.Validate()); err != nil {
		return err
	}
	server, err := newServer(ctx, o, *folder)
	if err != nil {
		return err
	}
	if err := server.AddReadyzChecks(ready); err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// authorize has the policies in a folder decide who may do what, and the authorizer that the server has where they have no opinion.
func authorize(ctx context.Context, config *genericapiserver.RecommendedConfig, folder string) error {
	policies := live.New(live.Options{})
	go func() { _ = policies.Run(ctx, dir.New(folder)) }() // WaitLoaded returns its error
	if err := policies.WaitLoaded(ctx); err != nil {
		return fmt.Errorf("load authorization policies: %w", err)
	}
	access := apiserver.NewAuthorizer(policies, apiserver.AuthorizerOptions{Rules: apiserver.ListerFunc(
		func(ctx context.Context, user usher.User, namespace string) (usher.Grants, error) {
			grants, err := policies.Grants(ctx, user, namespace)
			grants.Incomplete = true // The authorizer of the cluster lists nothing.
			return grants, err
		})})
	config.Authorization.Authorizer = union.New(
		authorizerfactory.NewPrivilegedGroups("system:masters"),
		access,
		config.Authorization.Authorizer,
	)
	config.RuleResolver = union.NewRuleResolvers(access) // for a server that serves SelfSubjectRulesReviews
	return nil
}

func newServer(ctx context.Context, o *options.RecommendedOptions, folder string) (*genericapiserver.GenericAPIServer, error) {
	if err := o.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	config := genericapiserver.NewRecommendedConfig(shop.Codecs)
	config.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	namer := apiopenapi.NewDefinitionNamer(shop.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	if err := o.ApplyTo(config); err != nil {
		return nil, fmt.Errorf("configure server: %w", err)
	}
	if folder != "" {
		if err := authorize(ctx, config, folder); err != nil {
			return nil, err
		}
	}
	server, err := config.Complete().New("apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("make server: %w", err)
	}
	orders, err := newStore(config.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(shop.Group, shop.Scheme, shop.ParameterCodec, shop.Codecs)
	group.VersionedResourcesStorageMap[v1.SchemeGroupVersion.Version] = orders
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("serve %s: %w", shop.Group, err)
	}
	return server, nil
}

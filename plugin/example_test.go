package plugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/usher-dev/usher/plugin"
)

// A server that is built on k8s.io/apiserver gets the plugin Usher, on by default, before
// its flags are made: --disable-admission-plugins then knows the name. The two variables
// are fields of its options, as in options.NewRecommendedOptions(…).Admission.
func ExampleRegister() {
	plugins := admission.NewPlugins()
	recommendedPluginOrder := []string{"NamespaceLifecycle", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook"}

	plugin.Register(plugins)
	recommendedPluginOrder = plugin.Order(recommendedPluginOrder)

	fmt.Println(recommendedPluginOrder)
	// Output: [NamespaceLifecycle Usher MutatingAdmissionPolicy MutatingAdmissionWebhook]
}

// The chain of a server is tested without the server: the plugin is made and initialized as a server does, and gets
// a request. The first one waits for the policies.
func ExampleRegister_test() {
	folder, err := os.MkdirTemp("", "policies")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	policy := `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: team}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
		mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{nodeName: 'a'}}"}}],
		validations: [{expression: "'team' in object.metadata.?labels.orValue({})", message: label team is required}]}}`
	if err := os.WriteFile(filepath.Join(folder, "team.yaml"), []byte(policy), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plugins := admission.NewPlugins() // or those of your server: o.Admission.Plugins
	plugin.Register(plugins)

	config := strings.NewReader(fmt.Sprintf("{apiVersion: %s, kind: %s, policies: [%q]}", plugin.APIVersion, plugin.Kind, folder))
	made, err := plugins.InitPlugin(plugin.Name, config, initializer.New(nil, nil, nil, nil, nil, nil, ctx.Done(), nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.NewChainHandler(made) // and the other plugins of your server
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	request := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "shop", "web",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "jane"})
	objects := admission.NewObjectInterfacesFromScheme(scheme.Scheme)
	fmt.Println(chain.Admit(ctx, request, objects), pod.Spec.NodeName)
	fmt.Println(chain.Validate(ctx, request, objects))
	// Output:
	// <nil> a
	// admission plugin "Usher" denied the request: label team is required (ClusterObjectPolicy team)
}

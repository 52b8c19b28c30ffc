package plugin_test

import (
	"fmt"

	"k8s.io/apiserver/pkg/admission"

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

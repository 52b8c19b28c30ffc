package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	door "github.com/usher-dev/usher/door/apiserver"
	"github.com/usher-dev/usher/plugin"
)

// A Plugin says how to run the admission plugin Usher.
type Plugin struct {
	// Policies are files and folders with policies; without any, policies come from the API.
	Policies []string
}

// register makes the plugin known to kube-apiserver, at its place in the order: switched on
// if p is not nil, so that --disable-admission-plugins can switch it off, and else off, so
// that --enable-admission-plugins can switch it on. A configuration in the file of
// --admission-control-config-file wins over p.
func (p *Plugin) register(opts *options.ServerRunOptions) {
	generic := opts.Admission.GenericAdmission
	door.Register(generic.Plugins, func(config io.Reader) (admission.Interface, error) {
		if config == nil && p != nil {
			var err error
			if config, err = p.configuration(); err != nil {
				return nil, err
			}
		}
		return plugin.New(config)
	})
	generic.RecommendedPluginOrder = plugin.Order(generic.RecommendedPluginOrder)
	if p == nil {
		generic.DefaultOffPlugins.Insert(plugin.Name)
	}
}

func (p *Plugin) configuration() (io.Reader, error) {
	text, err := json.Marshal(plugin.Configuration{
		TypeMeta: metav1.TypeMeta{APIVersion: plugin.APIVersion, Kind: plugin.Kind},
		Policies: p.Policies,
		// Nothing but this machine is there.
		AllowLocalFacts: true,
	})
	if err != nil {
		return nil, fmt.Errorf("configure admission plugin: %w", err)
	}
	return bytes.NewReader(text), nil
}

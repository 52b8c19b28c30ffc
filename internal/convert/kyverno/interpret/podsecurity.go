package interpret

import (
	"maps"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// A violation of the pod security standards: what a check finds at a field, of a container if it has one.
type violation struct{ check, field, container string }

// checksOf are the checks of the controls that can be left out.
var checksOf = map[string][]string{
	"AppArmor": {"appArmorProfile"}, "Capabilities": {"capabilities_baseline", "capabilities_restricted"}, "Host Namespaces": {"hostNamespaces"},
	"Host Ports": {"hostPorts"}, "HostPath Volumes": {"hostPathVolumes"}, "HostProcess": {"windowsHostProcess"}, "Privilege Escalation": {"allowPrivilegeEscalation"},
	"Privileged Containers": {"privileged"}, "Running as Non-root": {"runAsNonRoot"}, "Running as Non-root user": {"runAsUser"}, "SELinux": {"seLinuxOptions"},
	"Seccomp": {"seccompProfile_baseline", "seccompProfile_restricted"}, "Sysctls": {"sysctls"}, "Volume Types": {"restrictedVolumes"}, "/proc Mount Type": {"procMount"},
}

// podSecurity judges a pod, or the template of a workload, by a level.
func podSecurity(of *syntax.PodSecurity, object map[string]any) (Status, error) {
	if of.Version != "" && of.Version != "latest" {
		return None, &Unread{"version " + of.Version + " of the pod security standards"}
	}
	if object == nil {
		return None, nil
	}
	metadata, spec := podOf(object)
	restricted := of.Level == "restricted"
	left := violations(metadata, spec, restricted)
	for _, e := range of.Exclude {
		if e.RestrictedField != "" || len(e.Values) > 0 {
			return None, &Unread{"fields and values that podSecurity leaves out"}
		}
		kept := metadata
		if len(e.Images) > 0 {
			kept = nil
		}
		for _, v := range violations(kept, remaining(spec, e.Images), restricted) {
			at := slices.IndexFunc(left, func(w violation) bool {
				return w.check == v.check && w.field == v.field && (len(e.Images) == 0 || w.container == v.container)
			})
			if at >= 0 && slices.Contains(checksOf[e.ControlName], v.check) {
				left = slices.Delete(left, at, at+1)
			}
		}
	}
	if len(left) > 0 {
		return Fail, nil
	}
	return Pass, nil
}

// podOf returns the metadata and the spec of a pod in an object.
func podOf(object map[string]any) (metadata, spec map[string]any) {
	switch object["kind"] {
	case "Pod":
	case "CronJob":
		// The metadata is that of the template of the Job.
		template := inside(object, "spec", "jobTemplate")
		return inside(template, "metadata"), inside(template, "spec", "template", "spec")
	default:
		object = inside(object, "spec", "template")
	}
	return inside(object, "metadata"), inside(object, "spec")
}

// remaining returns a spec that is judged to find what is left out: without containers, or with nothing but those of images.
func remaining(spec map[string]any, images []string) map[string]any {
	if len(images) == 0 {
		pod := maps.Clone(spec)
		delete(pod, "initContainers")
		delete(pod, "ephemeralContainers")
		if pod == nil {
			pod = map[string]any{}
		}
		pod["containers"] = []any{map[string]any{"name": "fake"}}
		return pod
	}
	matching := map[string]any{}
	for _, list := range containerLists {
		var some []any
		for _, c := range listIn(spec, list) {
			image, _ := inside(map[string]any{"c": c}, "c")["image"].(string)
			if slices.ContainsFunc(images, func(pattern string) bool { return wildcard(pattern, image) }) {
				some = append(some, c)
			}
		}
		matching[list] = some
	}
	return matching
}

var containerLists = []string{"initContainers", "containers", "ephemeralContainers"}

// inside returns a map in a map, nil if there is none.
func inside(of map[string]any, path ...string) map[string]any {
	for _, name := range path {
		of, _ = of[name].(map[string]any)
	}
	return of
}

func listIn(of map[string]any, name string) []any {
	list, _ := of[name].([]any)
	return list
}

// violations returns what a pod violates of a level.
func violations(metadata, spec map[string]any, restricted bool) []violation {
	var all []violation
	add := func(bad bool, check, field, container string) {
		if bad {
			all = append(all, violation{check, field, container})
		}
	}
	ofPod(metadata, spec, restricted, add)
	windows := inside(spec, "os")["name"] == "windows"
	explicit := 0
	if restricted && !windows {
		explicit = len(seccomp(spec, true))
	}
	for _, list := range containerLists {
		for _, item := range listIn(spec, list) {
			c, _ := item.(map[string]any)
			name, _ := c["name"].(string)
			at := func(bad bool, check, field string) { add(bad, check, list+"."+field, name) }
			ofContainer(c, at)
			ofBoth(inside(c, "securityContext"), at)
			if !restricted {
				continue
			}
			context := inside(c, "securityContext")
			at(isZero(context["runAsUser"]), "runAsUser", "runAsUser")
			nonRoot, set := context["runAsNonRoot"].(bool)
			at(set && !nonRoot || !set && inside(spec, "securityContext")["runAsNonRoot"] != true, "runAsNonRoot", "runAsNonRoot")
			if windows {
				continue
			}
			at(context["allowPrivilegeEscalation"] != false, "allowPrivilegeEscalation", "allowPrivilegeEscalation")
			at(!slices.Contains(listIn(inside(context, "capabilities"), "drop"), any("ALL")), "capabilities_restricted", "drop")
			at(slices.ContainsFunc(listIn(inside(context, "capabilities"), "add"), func(a any) bool { return a != "NET_BIND_SERVICE" }), "capabilities_restricted", "add")
		}
	}
	for _, v := range seccomp(spec, true) {
		v.check = "seccompProfile_baseline"
		all = append(all, v)
	}
	if restricted && !windows {
		// Containers without a profile count if no profile is bad.
		all = append(all, seccomp(spec, explicit > 0)...)
	}
	return all
}

// ofPod finds what a pod violates outside of its containers.
func ofPod(metadata, spec map[string]any, restricted bool, add func(bad bool, check, field, container string)) {
	pod := func(bad bool, check, field string) { add(bad, check, field, "") }
	for key, value := range inside(metadata, "annotations") {
		text, _ := value.(string)
		pod(strings.HasPrefix(key, "container.apparmor.security.beta.kubernetes.io/") && text != "" && text != "runtime/default" && !strings.HasPrefix(text, "localhost/"), "appArmorProfile", key)
	}
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		pod(spec[field] == true, "hostNamespaces", field)
	}
	context := inside(spec, "securityContext")
	ofBoth(context, pod)
	for _, s := range listIn(context, "sysctls") {
		name, _ := inside(map[string]any{"s": s}, "s")["name"].(string)
		pod(!slices.Contains(strings.Fields(sysctls), name), "sysctls", "sysctls")
	}
	for _, item := range listIn(spec, "volumes") {
		v, _ := item.(map[string]any)
		pod(v["hostPath"] != nil, "hostPathVolumes", "volumes")
		pod(restricted && !slices.ContainsFunc(strings.Fields(volumes), func(kind string) bool { return v[kind] != nil }), "restrictedVolumes", "volumes")
	}
	if restricted {
		pod(isZero(context["runAsUser"]), "runAsUser", "runAsUser")
		pod(context["runAsNonRoot"] == false, "runAsNonRoot", "runAsNonRoot")
	}
}

const (
	sysctls = "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports net.ipv4.ip_unprivileged_port_start net.ipv4.ping_group_range net.ipv4.tcp_fin_timeout " +
		"net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_keepalive_time net.ipv4.tcp_rmem net.ipv4.tcp_syncookies net.ipv4.tcp_wmem"
	volumes = "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret"
	usual   = "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
)

// ofBoth finds what is wrong in the security context of a pod or a container.
func ofBoth(context map[string]any, at func(bad bool, check, field string)) {
	if profile := inside(context, "appArmorProfile"); profile != nil {
		at(profile["type"] != "RuntimeDefault" && profile["type"] != "Localhost", "appArmorProfile", "appArmorProfile")
	}
	at(inside(context, "windowsOptions")["hostProcess"] == true, "windowsHostProcess", "hostProcess")
	options := inside(context, "seLinuxOptions")
	for _, field := range []string{"user", "role"} {
		text, _ := options[field].(string)
		at(text != "", "seLinuxOptions", field)
	}
	text, _ := options["type"].(string)
	at(!slices.Contains([]string{"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}, text), "seLinuxOptions", "type")
}

// ofContainer finds what a container violates of the level baseline.
func ofContainer(c map[string]any, at func(bad bool, check, field string)) {
	context := inside(c, "securityContext")
	at(context["privileged"] == true, "privileged", "privileged")
	at(context["procMount"] != nil && context["procMount"] != "Default", "procMount", "procMount")
	at(slices.ContainsFunc(listIn(inside(context, "capabilities"), "add"), func(a any) bool {
		text, _ := a.(string)
		return !slices.Contains(strings.Fields(usual), text)
	}), "capabilities_baseline", "add")
	for _, item := range listIn(c, "ports") {
		p, _ := item.(map[string]any)
		at(p["hostPort"] != nil && !isZero(p["hostPort"]), "hostPorts", "hostPort")
	}
	for _, path := range [][]string{{"livenessProbe"}, {"readinessProbe"}, {"startupProbe"}, {"lifecycle", "postStart"}, {"lifecycle", "preStop"}} {
		for _, way := range []string{"httpGet", "tcpSocket"} {
			host, _ := inside(inside(c, path...), way)["host"].(string)
			at(host != "", "hostProbesAndHostLifecycle", "host")
		}
	}
}

// seccomp returns which profiles are bad: those that are set, or else those that are not.
func seccomp(spec map[string]any, set bool) []violation {
	valid := func(of map[string]any) bool { return of["type"] == "RuntimeDefault" || of["type"] == "Localhost" }
	var all []violation
	const check = "seccompProfile_restricted"
	pod := inside(spec, "securityContext", "seccompProfile")
	if set && pod != nil && !valid(pod) {
		all = append(all, violation{check, "seccompProfile", ""})
	}
	for _, list := range containerLists {
		for _, item := range listIn(spec, list) {
			c, _ := item.(map[string]any)
			profile := inside(c, "securityContext", "seccompProfile")
			if set && profile != nil && !valid(profile) || !set && profile == nil && !valid(pod) {
				name, _ := c["name"].(string)
				all = append(all, violation{check, list + ".seccompProfile", name})
			}
		}
	}
	return all
}

func isZero(value any) bool { return value == int64(0) || value == float64(0) }

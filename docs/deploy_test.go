package docs_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// These are as much of the formats as the examples use. A field that is not here is a slip of the pen.
type (
	compose struct {
		Name     string
		Services map[string]service
		Volumes  map[string]struct{}
		Secrets  map[string]struct{ File string }
	}
	service struct {
		Image, Restart string
		Command        []string
		Environment    map[string]string
		Secrets        []string
		Volumes        []string
		Healthcheck    struct {
			Test     []string
			Interval time.Duration
		}
		StopGracePeriod time.Duration                         `yaml:"stop_grace_period"`
		DependsOn       map[string]struct{ Condition string } `yaml:"depends_on"`
		Deploy          struct{ Replicas int }
		ReadOnly        bool `yaml:"read_only"`
	}

	object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct {
			Name   string
			Labels map[string]string
		}
		Spec objectSpec
	}
	objectSpec struct {
		// For a Deployment and a StatefulSet.
		Replicas int
		Selector selector
		Strategy struct {
			Type          string
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
				MaxSurge       int `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		}
		Template             pod
		ServiceName          string            `yaml:"serviceName"`
		Retention            map[string]string `yaml:"persistentVolumeClaimRetentionPolicy"`
		VolumeClaimTemplates []struct {
			Metadata struct{ Name string }
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   resources
			}
		} `yaml:"volumeClaimTemplates"`
		// Of a Service.
		ClusterIP string `yaml:"clusterIP"`
		Ports     []struct {
			Name string
			Port int
		}
		// Of a PodDisruptionBudget.
		MinAvailable int `yaml:"minAvailable"`
	}
	// A Service's is the labels themselves.
	selector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
		App         string
	}
	pod struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct {
			Grace  int `yaml:"terminationGracePeriodSeconds"`
			Spread []struct {
				MaxSkew           int      `yaml:"maxSkew"`
				TopologyKey       string   `yaml:"topologyKey"`
				WhenUnsatisfiable string   `yaml:"whenUnsatisfiable"`
				LabelSelector     selector `yaml:"labelSelector"`
			} `yaml:"topologySpreadConstraints"`
			SecurityContext struct {
				RunAsNonRoot bool `yaml:"runAsNonRoot"`
				RunAsUser    int  `yaml:"runAsUser"`
				FSGroup      int  `yaml:"fsGroup"`
			} `yaml:"securityContext"`
			InitContainers []container `yaml:"initContainers"`
			Containers     []container
		}
	}
	container struct {
		Name, Image string
		Command     []string
		Env         []struct {
			Name, Value string
			ValueFrom   struct {
				SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
			} `yaml:"valueFrom"`
		}
		Ports []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		ReadinessProbe  probe `yaml:"readinessProbe"`
		LivenessProbe   probe `yaml:"livenessProbe"`
		Resources       resources
		SecurityContext struct {
			ReadOnlyRootFilesystem   bool `yaml:"readOnlyRootFilesystem"`
			AllowPrivilegeEscalation bool `yaml:"allowPrivilegeEscalation"`
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
		PeriodSeconds    int                         `yaml:"periodSeconds"`
		FailureThreshold int                         `yaml:"failureThreshold"`
	}
	resources struct{ Requests, Limits map[string]string }
)

// read returns a file's documents. The test fails for a field that T does not know.
func read[T any](t *testing.T, file string) (all []T) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		d.KnownFields(true)
		var one T
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err, file)
		}
		all = append(all, one)
	}
}

// clientShutdown is the longest time that a program takes from SIGTERM on: ten seconds for the client alone, and three
// times as much for everything else that has to end.
const clientShutdown = 40 * time.Second

func TestCompose(t *testing.T) {
	c := read[compose](t, "deploy/compose.yaml")[0]
	conditions := []string{"service_started", "service_healthy", "service_completed_successfully"}
	for name, s := range c.Services {
		assert.Contains(t, s.Image, ":", "%s: an image without a version is another one tomorrow", name)
		for on, how := range s.DependsOn {
			assert.Contains(t, c.Services, on, name)
			assert.Contains(t, conditions, how.Condition, name)
		}
		for _, secret := range s.Secrets {
			assert.Contains(t, c.Secrets, secret, name)
		}
		for key, value := range s.Environment {
			if strings.HasSuffix(key, "PASSWORD_FILE") {
				assert.Contains(t, s.Secrets, strings.TrimPrefix(value, "/run/secrets/"), name)
			}
			assert.False(t, strings.HasSuffix(key, "PASSWORD"), "%s: a password in the environment is in every dump of it", name)
		}
	}
	database, migrate, service := c.Services["database"], c.Services["migrate"], c.Services["payments"]
	volume, _, _ := strings.Cut(database.Volumes[0], ":")
	assert.Contains(t, c.Volumes, volume, "the database outlives its container")
	assert.Empty(t, database.Command, "the settings that keep a commit are on by default")
	assert.Equal(t, "service_healthy", migrate.DependsOn["database"].Condition)
	assert.NotEmpty(t, database.Healthcheck.Test)
	assert.Equal(t, "no", migrate.Restart)
	assert.Equal(t, "service_completed_successfully", service.DependsOn["migrate"].Condition)
	assert.Greater(t, service.Deploy.Replicas, 1)
	assert.Greater(t, service.StopGracePeriod, clientShutdown)
	assert.NotEmpty(t, service.Environment["DEPLOYMENT"])
	assert.True(t, service.ReadOnly, "it writes to no disk")
	assert.Equal(t, "pooler:6432", service.Environment["DATABASE_HOST"])
	assert.Equal(t, "database:5432", migrate.Environment["DATABASE_HOST"], "a lock of a migration's session goes past a pooler")
}

func TestPgBouncerSettings(t *testing.T) {
	text, err := os.ReadFile("deploy/pgbouncer.ini")
	require.NoError(t, err)
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, ";") {
			settings[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	assert.Equal(t, "transaction", settings["pool_mode"])
	assert.Equal(t, "6432", settings["listen_port"])
	assert.Equal(t, "/run/secrets/pgbouncer-users", settings["auth_file"])
	assert.NotEmpty(t, settings["tcp_user_timeout"])
	assert.Equal(t, "1", settings["server_login_retry"])
}

// ofKind picks the one object of a kind.
func ofKind(t *testing.T, all []object, kind string) object {
	t.Helper()
	i := slices.IndexFunc(all, func(o object) bool { return o.Kind == kind })
	require.GreaterOrEqual(t, i, 0, "there is no %s", kind)
	return all[i]
}

// served checks a program on Kubernetes for the rules that hold with every journal.
func served(t *testing.T, workload object) container {
	t.Helper()
	assert.Equal(t, "apps/v1", workload.APIVersion)
	pod := workload.Spec.Template
	assert.Equal(t, workload.Spec.Selector.MatchLabels, pod.Metadata.Labels, "it finds its own pods")
	assert.Greater(t, time.Duration(pod.Spec.Grace)*time.Second, clientShutdown)
	assert.True(t, pod.Spec.SecurityContext.RunAsNonRoot)
	require.Len(t, pod.Spec.Containers, 1)
	c := pod.Spec.Containers[0]
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	assert.Contains(t, ports, c.ReadinessProbe.HTTPGet.Port)
	assert.Contains(t, ports, c.LivenessProbe.HTTPGet.Port)
	assert.NotEqual(t, c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path, "what is not ready is not to be killed for it")
	assert.NotContains(t, c.Resources.Limits, "cpu", "who is throttled loses the lease")
	assert.True(t, c.SecurityContext.ReadOnlyRootFilesystem)
	for _, e := range c.Env {
		assert.True(t, (e.Value == "") != (e.ValueFrom.SecretKeyRef.Name == ""), "%s has one value", e.Name)
		if strings.Contains(e.Name, "URL") || strings.Contains(e.Name, "SECRET") {
			assert.NotEmpty(t, e.ValueFrom.SecretKeyRef.Key, "%s is a secret", e.Name)
		}
	}
	return c
}

func environment(c container) []string {
	var names []string
	for _, e := range c.Env {
		names = append(names, e.Name)
	}
	return names
}

func TestKubernetesDeployment(t *testing.T) {
	all := read[object](t, "deploy/deployment.yaml")
	workload := ofKind(t, all, "Deployment")
	c := served(t, workload)
	assert.Subset(t, environment(c), []string{"DATABASE_URL", "DEPLOYMENT"})
	assert.Empty(t, c.VolumeMounts, "the journal is in the database")
	assert.Greater(t, workload.Spec.Replicas, 1)
	assert.Zero(t, workload.Spec.Strategy.RollingUpdate.MaxUnavailable)
	for _, spread := range workload.Spec.Template.Spec.Spread {
		assert.True(t, maps.Equal(spread.LabelSelector.MatchLabels, workload.Spec.Selector.MatchLabels))
	}
	require.Len(t, workload.Spec.Template.Spec.InitContainers, 1)
	assert.Equal(t, c.Image, workload.Spec.Template.Spec.InitContainers[0].Image, "a release migrates to its own schema")

	budget := ofKind(t, all, "PodDisruptionBudget")
	assert.Equal(t, workload.Spec.Selector, budget.Spec.Selector)
	assert.Less(t, budget.Spec.MinAvailable, workload.Spec.Replicas, "else no node can be drained")
}

func TestKubernetesStatefulSet(t *testing.T) {
	all := read[object](t, "deploy/statefulset.yaml")
	workload := ofKind(t, all, "StatefulSet")
	c := served(t, workload)
	assert.Equal(t, workload.Spec.ServiceName, ofKind(t, all, "Service").Metadata.Name)
	assert.Equal(t, workload.Spec.Selector.MatchLabels["app"], ofKind(t, all, "Service").Spec.Selector.App)
	require.Len(t, workload.Spec.VolumeClaimTemplates, 1)
	claim := workload.Spec.VolumeClaimTemplates[0]
	assert.Equal(t, []string{"ReadWriteOncePod"}, claim.Spec.AccessModes, "two pods on one file system of a network would not see each other's locks")
	require.Len(t, c.VolumeMounts, 1)
	assert.Equal(t, claim.Metadata.Name, c.VolumeMounts[0].Name)
	assert.Equal(t, map[string]string{"whenDeleted": "Retain", "whenScaled": "Retain"}, workload.Spec.Retention)
	assert.Contains(t, environment(c), "KEY_SECRET")
	for _, e := range c.Env {
		if e.Name == "JOURNAL" {
			assert.True(t, strings.HasPrefix(e.Value, c.VolumeMounts[0].MountPath+"/"), "the journal is on the volume")
		}
	}
}

package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// ciBlocks are the fenced blocks of docs/ci.md in one language.
func ciBlocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	return blocks
}

// The workflows are made to be copied: they are YAML, every job has an end, and what they run is there.
func TestCIWorkflows(t *testing.T) {
	type step struct {
		Name string            `yaml:"name"`
		Uses string            `yaml:"uses"`
		Run  string            `yaml:"run"`
		If   string            `yaml:"if"`
		Env  map[string]string `yaml:"env"`
		With map[string]any    `yaml:"with"`
	}
	type workflow struct {
		Name        string            `yaml:"name"`
		On          map[string]any    `yaml:"on"`
		Permissions map[string]string `yaml:"permissions"`
		Concurrency map[string]any    `yaml:"concurrency"`
		Jobs        map[string]struct {
			RunsOn  string `yaml:"runs-on"`
			Minutes int    `yaml:"timeout-minutes"`
			Steps   []step `yaml:"steps"`
		} `yaml:"jobs"`
	}
	workflows, tasks := 0, map[string]bool{}
	for _, block := range ciBlocks(t, "yaml") {
		d := yaml.NewDecoder(strings.NewReader(block))
		d.KnownFields(true)
		if strings.HasPrefix(block, "- ") { // steps for a job
			var steps []step
			if err := d.Decode(&steps); err != nil || len(steps) == 0 {
				t.Errorf("steps: %v\n%s", err, block)
			}
			continue
		}
		var w workflow
		if err := d.Decode(&w); err != nil {
			t.Errorf("workflow: %v\n%s", err, block)
			continue
		}
		workflows++
		if w.Permissions["contents"] != "read" || len(w.On) == 0 || len(w.Jobs) == 0 || w.On["pull_request_target"] != nil {
			t.Errorf("%s: permissions %v, on %v, %d jobs", w.Name, w.Permissions, w.On, len(w.Jobs))
		}
		for name, job := range w.Jobs {
			if job.Minutes == 0 || job.RunsOn == "" || len(job.Steps) == 0 {
				t.Errorf("%s: job %s has no end, no machine or no steps", w.Name, name)
			}
			for _, s := range job.Steps {
				if (s.Uses == "") == (s.Run == "") {
					t.Errorf("%s: job %s: step %q neither uses nor runs", w.Name, name, s.Name)
				}
				for _, m := range regexp.MustCompile(`scripts/task (\S+)`).FindAllStringSubmatch(s.Run, -1) {
					tasks[m[1]] = true
				}
			}
		}
	}
	taskfile, err := os.ReadFile("../Taskfile.yml")
	if err != nil {
		t.Fatal(err)
	}
	for task := range tasks {
		if !bytes.Contains(taskfile, []byte("\n  "+task+":\n")) {
			t.Errorf("Taskfile.yml has no task %s", task)
		}
	}
	if workflows != 2 || len(tasks) == 0 {
		t.Errorf("%d workflows with tasks %v: this test guards nothing", workflows, tasks)
	}
}

// Every flag of analysis that the page names is one.
func TestCICommands(t *testing.T) {
	flags := regexp.MustCompile(`--[a-z][a-z-]*`)
	checked := 0
	for _, block := range append(ciBlocks(t, "sh"), ciBlocks(t, "yaml")...) {
		for _, line := range strings.Split(block, "\n") {
			_, rest, ok := strings.Cut(line, ".bin/analysis ")
			if !ok {
				continue
			}
			command := strings.Fields(rest)[0]
			var help, stderr bytes.Buffer
			if code := run([]string{command, "--help"}, &help, &stderr); code != exitOK {
				t.Errorf("%s: %s", strings.TrimSpace(line), stderr.Bytes())
				continue
			}
			for _, f := range flags.FindAllString(rest, -1) {
				checked++
				if !regexp.MustCompile(regexp.QuoteMeta(f) + `\b`).Match(help.Bytes()) {
					t.Errorf("%s: %s has no flag %s", strings.TrimSpace(line), command, f)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no command of analysis on the page: this test guards nothing")
	}
}

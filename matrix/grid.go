package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"felix/internal/settings"
	"felix/internal/workload"
	"felix/presets"
)

// gridFile is the session's own copy of its grid, resolved: a preset may change between a kill and its resume.
const gridFile = "grid.json"

func gridNames() string { return strings.Join(presets.GridNames(), ", ") }

// loadGrid reads the grid that the flags name, with --set and --only applied. What is wrong with it is a usage error.
func loadGrid(o *runOptions) (*workload.Grid, error) {
	g, err := findGrid(o.grid)
	if err != nil {
		return nil, gridUsage(err)
	}
	if err := g.Select(o.set, o.only); err != nil {
		return nil, gridUsage(err)
	}
	return g, checkGrid(g)
}

// findGrid takes the name of a built-in grid before a file of that name; a path is always a file.
func findGrid(name string) (*workload.Grid, error) {
	isPath := strings.ContainsRune(filepath.ToSlash(name), '/') || strings.HasSuffix(name, ".yml") || strings.HasSuffix(name, ".yaml")
	if !isPath {
		if slices.Contains(presets.GridNames(), name) {
			return presets.Grid(name)
		}
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return presets.Grid(name) // an error that names the nearest
		}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usagef("--grid NAME is one of "+gridNames()+"; or a YAML file", "--grid: %w", err)
	}
	return presets.ParseGrid(name, text)
}

func gridUsage(err error) error {
	var usage *usageError
	if errors.As(err, &usage) {
		return err
	}
	var at *settings.Error
	if errors.As(err, &at) && at.Hint != "" {
		return &usageError{err: err, hint: at.Hint}
	}
	return &usageError{err: err, hint: "the built-in grids are " + gridNames() + "; --dry-run shows the cells of one"}
}

// checkGrid refuses what cannot be told apart afterwards, or run at all.
func checkGrid(g *workload.Grid) error {
	if len(g.Cells) == 0 {
		return usagef("widen --only", "grid %s: no cell is left", g.Name)
	}
	seen := map[string]string{}
	for i := range g.Cells {
		c := &g.Cells[i]
		key := c.Case.Key()
		if other, twice := seen[key]; twice {
			// Records carry the case's key: the same case in two sizes would be one cell to every reader.
			return usagef("one grid holds a case once, in one size", "grid %s: cells %q and %q are the same case", g.Name, other, c.Name)
		}
		seen[key] = c.Name
		if c.Case.Topology == workload.TopologyExternal {
			return usagef("latencydemo --session DIR records runs against a running broker", "grid %s: cell %q: a matrix starts its own brokers", g.Name, c.Name)
		}
	}
	return nil
}

// trialFlags are latencydemo's flags for one trial of a cell. Payload bytes and arrivals differ from trial to trial,
// and are the same for all cells of a block.
func trialFlags(c *workload.Cell, trial int) []string {
	args := c.Flags()
	if c.Sizes.Seed == nil {
		args = append(args, "--seed", strconv.Itoa(trial))
	}
	return args
}

func saveGrid(dir string, g *workload.Grid) error {
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return fmt.Errorf("save the grid: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, gridFile), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("save the grid: %w", err)
	}
	return nil
}

// sessionGrid reads the session's copy of its grid and holds it against the digest in session.json.
func sessionGrid(dir, digest string) (*workload.Grid, error) {
	name := filepath.Join(dir, gridFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usagef("name the grid with --grid", "the session's grid: %w", err)
	}
	var g workload.Grid
	if err := json.Unmarshal(text, &g); err != nil {
		return nil, usagef("name the grid with --grid", "%s: %w", name, err)
	}
	if workload.Digest(g.Cells) != digest {
		return nil, usagef("name the grid with --grid", "%s was changed: it is not the grid of session.json", name)
	}
	return &g, nil
}

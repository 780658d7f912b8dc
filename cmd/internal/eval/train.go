package main

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"os"

	"github.com/lingjiyidong/lj/memory"
)

// example is one labelled pair in features.
type example struct {
	x      []float64
	y      float64
	source string
}

type fitted memory.Weights

func examples(c memory.Cutter, rows []pairRow) []example {
	out := make([]example, len(rows))
	for i, r := range rows {
		out[i] = example{memory.PairFeatures(c, r.a, r.b), float64(r.label), r.source}
	}
	return out
}

// fit finds the weights of the logistic regression by Newton's method with a ridge.
func fit(list []example, ridge float64) fitted {
	d := len(list[0].x)
	f := fitted{Mean: make([]float64, d), Scale: make([]float64, d)}
	for i := range d {
		for _, e := range list {
			f.Mean[i] += e.x[i]
		}
		f.Mean[i] /= float64(len(list))
		for _, e := range list {
			f.Scale[i] += (e.x[i] - f.Mean[i]) * (e.x[i] - f.Mean[i])
		}
		f.Scale[i] = math.Max(math.Sqrt(f.Scale[i]/float64(len(list))), 1e-3)
	}
	rows := make([][]float64, len(list))
	for k, e := range list {
		rows[k] = f.expand(e.x)
	}
	n := len(rows[0])
	f.W = make([]float64, n)
	for range 12 {
		grad, hess := make([]float64, n), make([][]float64, n)
		for i := range n {
			hess[i] = make([]float64, n)
			if i > 0 {
				hess[i][i] = ridge
				grad[i] = -ridge * f.W[i]
			} else {
				hess[i][i] = 1e-6
			}
		}
		for k, x := range rows {
			z := 0.0
			for i, v := range x {
				z += v * f.W[i]
			}
			p := 1 / (1 + math.Exp(-z))
			g, h := list[k].y-p, math.Max(p*(1-p), 1e-6)
			for i, v := range x {
				grad[i] += g * v
				hv, row := h*v, hess[i]
				for j := 0; j <= i; j++ {
					row[j] += hv * x[j]
				}
			}
		}
		step := solve(hess, grad)
		most := 0.0
		for i := range step {
			f.W[i] += step[i]
			most = math.Max(most, math.Abs(step[i]))
		}
		if most < 1e-4 {
			break
		}
	}
	return f
}

func (f fitted) expand(x []float64) []float64 {
	s := make([]float64, len(x))
	for i := range x {
		s[i] = (x[i] - f.Mean[i]) / f.Scale[i]
	}
	return memory.Expand(s)
}

func (f fitted) p(x []float64) float64 {
	z := 0.0
	for i, v := range f.expand(x) {
		z += v * f.W[i]
	}
	return 1 / (1 + math.Exp(-z))
}

// solve solves a symmetric positive system given by its lower triangle (Cholesky).
func solve(a [][]float64, b []float64) []float64 {
	n := len(b)
	for j := range n {
		for k := range j {
			a[j][j] -= a[j][k] * a[j][k]
		}
		a[j][j] = math.Sqrt(math.Max(a[j][j], 1e-12))
		for i := j + 1; i < n; i++ {
			for k := range j {
				a[i][j] -= a[i][k] * a[j][k]
			}
			a[i][j] /= a[j][j]
		}
	}
	x := append([]float64{}, b...)
	for i := range n {
		for k := range i {
			x[i] -= a[i][k] * x[k]
		}
		x[i] /= a[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= a[k][i] * x[k]
		}
		x[i] /= a[i][i]
	}
	return x
}

const folds = 5

// parts divides the pairs into folds such that a sentence is in one fold only: sets of
// pairs use a sentence more than once.
func parts(rows []pairRow) []int {
	parent := make([]int, len(rows))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	first := map[string]int{}
	for i, r := range rows {
		for _, text := range []string{r.a, r.b} {
			if j, ok := first[text]; ok {
				parent[root(i)] = root(j)
			} else {
				first[text] = i
			}
		}
	}
	out := make([]int, len(rows))
	for i := range rows {
		r := rows[root(i)]
		h := fnv.New32a()
		h.Write([]byte(r.a + "\t" + r.b))
		out[i] = int(h.Sum32()>>3) % folds
	}
	return out
}

// crossValidate says on stderr how the rules and the model do on pairs that the model was
// not fitted on, in the form of the figures on stdout.
func crossValidate(c memory.Cutter, lang string, rows []pairRow, list []example) {
	fold := parts(rows)
	count := newCounts()
	for k := range folds {
		var known []example
		for i, e := range list {
			if fold[i] != k {
				known = append(known, e)
			}
		}
		w := memory.Weights(fit(known, ridge))
		for i, r := range rows {
			if fold[i] == k {
				count.add(r, memory.JudgeBy(c, &w, r.a, r.b))
			}
		}
	}
	count.print(os.Stderr, "dedup."+lang+".held_out")
}

const ridge = 30

// train fits both models and writes them as the file that memory embeds.
func train(c memory.Cutter, dir, path string) error {
	out := map[string]fitted{}
	for _, lang := range []string{"zh", "en"} {
		rows, err := readPairs(dir, lang)
		if err != nil {
			return err
		}
		list := examples(c, rows)
		crossValidate(c, lang, rows, list)
		f := fit(list, ridge)
		for _, v := range [][]float64{f.Mean, f.Scale, f.W} {
			for i := range v {
				v[i] = math.Round(v[i]*1e5) / 1e5
			}
		}
		out[lang] = f
	}
	b, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// Command unit_convert converts between units of length, mass, volume, area, speed, time,
// data, pressure, energy, power, angle and temperature, Chinese market units included.
package main

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/lingjiyidong/lj/plugins/sdk"
)

type Args struct {
	Value float64 `json:"value" jsonschema:"how much"`
	From  string  `json:"from" jsonschema:"unit such as km, mi, lb, 斤, 亩, °C, MiB"`
	To    string  `json:"to" jsonschema:"unit of the same kind"`
}

// kinds holds for each unit how many base units it is. Exact by definition where there is
// one: the international foot, pound and gallon; 市制 by the definition of 1930 (1 市斤 =
// 500 g, 1 市尺 = 1/3 m).
var kinds = map[string]map[string]float64{
	"length": {"m": 1, "km": 1e3, "dm": .1, "cm": .01, "mm": 1e-3, "um": 1e-6, "nm": 1e-9, "in": .0254, "ft": .3048, "yd": .9144, "mi": 1609.344, "nmi": 1852,
		"米": 1, "公里": 1e3, "千米": 1e3, "厘米": .01, "毫米": 1e-3, "里": 500, "丈": 10. / 3, "尺": 1. / 3, "寸": 1. / 30, "英寸": .0254, "英尺": .3048, "英里": 1609.344, "海里": 1852},
	"mass": {"kg": 1, "g": 1e-3, "mg": 1e-6, "t": 1e3, "lb": .45359237, "oz": .028349523125, "st": 6.35029318,
		"千克": 1, "公斤": 1, "克": 1e-3, "毫克": 1e-6, "吨": 1e3, "斤": .5, "两": .05, "钱": .005, "磅": .45359237, "盎司": .028349523125},
	"volume": {"l": 1, "ml": 1e-3, "m3": 1e3, "cm3": 1e-3, "gal": 3.785411784, "qt": .946352946, "pt": .473176473, "cup": .2365882365, "floz": .0295735295625, "ukgal": 4.54609, "升": 1, "毫升": 1e-3, "立方米": 1e3},
	"area": {"m2": 1, "km2": 1e6, "cm2": 1e-4, "ha": 1e4, "acre": 4046.8564224, "ft2": .09290304, "in2": .00064516, "mi2": 2589988.110336,
		"平方米": 1, "平方公里": 1e6, "公顷": 1e4, "亩": 2000. / 3, "顷": 200000. / 3, "英亩": 4046.8564224},
	"speed":    {"m/s": 1, "km/h": 1 / 3.6, "kmh": 1 / 3.6, "mph": .44704, "kn": 1852. / 3600, "ft/s": .3048},
	"time":     {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60, "h": 3600, "d": 86400, "week": 604800, "秒": 1, "毫秒": 1e-3, "分钟": 60, "小时": 3600, "天": 86400, "周": 604800},
	"data":     {"B": 1, "bit": .125, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "kbit": 125, "Mbit": 125e3, "Gbit": 125e6},
	"pressure": {"Pa": 1, "hPa": 100, "kPa": 1e3, "MPa": 1e6, "bar": 1e5, "mbar": 100, "atm": 101325, "psi": 6894.757293168, "mmHg": 133.322387415},
	"energy":   {"J": 1, "kJ": 1e3, "MJ": 1e6, "Wh": 3600, "kWh": 3.6e6, "cal": 4.184, "kcal": 4184, "BTU": 1055.05585262, "eV": 1.602176634e-19},
	"power":    {"W": 1, "kW": 1e3, "MW": 1e6, "hp": 745.69987158227, "PS": 735.49875, "马力": 735.49875},
	"angle":    {"deg": math.Pi / 180, "rad": 1, "grad": math.Pi / 200, "arcmin": math.Pi / 10800, "arcsec": math.Pi / 648000, "turn": 2 * math.Pi, "°": math.Pi / 180},
}

var temperatures = map[string]string{"c": "C", "°c": "C", "℃": "C", "摄氏度": "C", "celsius": "C", "f": "F", "°f": "F", "℉": "F", "华氏度": "F", "fahrenheit": "F", "k": "K", "kelvin": "K", "开尔文": "K"}

func Run(_ context.Context, in Args) (string, error) {
	from, to := strings.TrimSpace(in.From), strings.TrimSpace(in.To)
	if a, ok := temperatures[strings.ToLower(from)]; ok {
		b, ok := temperatures[strings.ToLower(to)]
		if !ok {
			return "", fmt.Errorf("%s is a temperature, %q is not; use °C, °F or K", from, to)
		}
		v, err := temperature(in.Value, a, b)
		if err != nil {
			return "", err
		}
		return answer(in.Value, from, v, to), nil
	}
	ka, fa, err := find(from)
	if err != nil {
		return "", err
	}
	kb, fb, err := find(to)
	if err != nil {
		return "", err
	}
	if ka != kb {
		return "", fmt.Errorf("%s is a unit of %s, %s one of %s", from, ka, to, kb)
	}
	return answer(in.Value, from, in.Value*fa/fb, to), nil
}

func answer(a float64, from string, b float64, to string) string {
	return fmt.Sprintf("%s %s = %s %s", num(a), from, num(b), to)
}

// num has 12 significant digits, which hides the error of binary fractions.
func num(f float64) string {
	r, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 12, 64), 64)
	if err != nil {
		r = f
	}
	if r != 0 && (math.Abs(r) < 1e-6 || math.Abs(r) >= 1e15) {
		return strconv.FormatFloat(r, 'g', -1, 64)
	}
	return strconv.FormatFloat(r, 'f', -1, 64)
}

func temperature(v float64, from, to string) (float64, error) {
	k := v
	switch from {
	case "C":
		k = v + 273.15
	case "F":
		k = (v + 459.67) * 5 / 9
	}
	if k < -1e-9 {
		return 0, fmt.Errorf("%s °%s is below absolute zero", num(v), from)
	}
	switch to {
	case "C":
		return k - 273.15, nil
	case "F":
		return k*9/5 - 459.67, nil
	}
	return k, nil
}

// find looks the unit up as written, then without regard to case where that is clear.
func find(unit string) (string, float64, error) {
	u := strings.NewReplacer("²", "2", "³", "3", "μ", "u", "µ", "u").Replace(unit)
	type hit struct {
		kind, name string
		factor     float64
	}
	var loose []hit
	for kind, units := range kinds {
		if f, ok := units[u]; ok {
			return kind, f, nil
		}
		for name, f := range units {
			if strings.EqualFold(name, u) {
				loose = append(loose, hit{kind, name, f})
			}
		}
	}
	if len(loose) == 1 {
		return loose[0].kind, loose[0].factor, nil
	}
	if len(loose) > 1 {
		var names []string
		for _, h := range loose {
			names = append(names, h.name)
		}
		sort.Strings(names)
		return "", 0, fmt.Errorf("unit %q is not clear: %s", unit, strings.Join(names, " or "))
	}
	names := make([]string, 0, len(kinds))
	for k := range kinds {
		names = append(names, k)
	}
	sort.Strings(names)
	return "", 0, fmt.Errorf("unit %q is not known; there are units of %s and temperature, by their symbols", unit, strings.Join(names, ", "))
}

func main() {
	sdk.Serve("unit_convert", "Converts units: length, mass, area, volume, speed, time, data, temperature …, 斤 亩 尺 too", Run, sdk.ReadOnly())
}

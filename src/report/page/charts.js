// Draws every chart of the page from the data the report carries. A series is a line, points, bars or a band; colours are names
// of the style sheet ("var(--s1)"), which the browser resolves, so themes and print need no redraw.
(function () {
  'use strict';
  const data = JSON.parse(document.getElementById('report-data').textContent);
  const text = data.text;
  const SYMBOLS = ['circle', 'triangle', 'diamond', 'rect', 'roundRect', 'pin', 'arrow', 'circle'];
  const DASHES = { solid: 'solid', dashed: [6, 4], dotted: [2, 3] };
  const encode = echarts.format.encodeHTML;

  // Three significant digits, more where the integer part has more.
  function show(value) {
    if (value === null || value === undefined) return '–';
    const size = Math.abs(value);
    if (size === 0) return '0';
    if (size >= 100000) return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ' ');
    if (size >= 100) return String(Math.round(value));
    if (size < 0.001) return value.toExponential(1);
    return String(Number(value.toPrecision(3)));
  }

  function colorOf(series) { return series.color < 0 ? 'var(--muted)' : 'var(--s' + (series.color % 8) + ')'; }

  // The next number that looks well at the end of an axis.
  function above(value) {
    if (!(value > 0)) return undefined;
    const power = Math.pow(10, Math.floor(Math.log10(value)));
    const factor = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((f) => f * power >= value * 1.02);
    return Number(((factor || 12) * power).toPrecision(3));
  }

  // 1, 2, 5 and their tenfolds around the range; beyond three decades the tenfolds alone.
  function tens(low, high) {
    const steps = [];
    const factors = high / low > 1000 ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)) + 1; power += 1) {
      for (const factor of factors) steps.push(Number((factor * Math.pow(10, power)).toPrecision(3)));
    }
    const first = steps.filter((v) => v <= low * 1.000001).length - 1;
    const last = steps.findIndex((v) => v >= high * 0.999999);
    return steps.slice(first, last + 1);
  }

  function axis(spec, values, isX) {
    const log = spec.scale === 'log2' || spec.scale === 'log10';
    const option = {
      name: spec.label, nameLocation: 'middle', nameGap: isX ? 28 : 44,
      type: spec.scale === 'category' ? 'category' : log ? 'log' : 'value',
      nameTextStyle: { color: 'var(--muted)', fontSize: 12 },
      axisLabel: { color: 'var(--muted)', fontSize: 11, hideOverlap: true },
      axisLine: { show: isX, lineStyle: { color: 'var(--line)' } },
      axisTick: { show: isX, lineStyle: { color: 'var(--line)' } },
      splitLine: { show: !isX, lineStyle: { color: 'var(--grid)' } },
      axisPointer: { lineStyle: { color: 'var(--muted)' }, label: { show: false } },
    };
    if (option.type === 'category') {
      option.data = spec.categories;
      return option;
    }
    option.axisLabel.formatter = show;
    const low = Math.min.apply(null, values);
    const high = Math.max.apply(null, values);
    if (log) {
      option.logBase = spec.scale === 'log2' ? 2 : 10;
      const base = option.logBase;
      if (low === high) {
        // A single level has no extent of its own.
        option.min = low / 2;
        option.max = high * 2;
      } else if (base === 2) {
        option.min = Math.pow(2, Math.floor(Math.log2(low) + 1e-9));
        option.max = Math.pow(2, Math.ceil(Math.log2(high) - 1e-9));
        const levels = Array.from(new Set(values)).sort((a, b) => a - b);
        if (levels.length <= 12) {
          option.axisLabel.customValues = levels;
          option.axisTick.customValues = levels;
          option.min = low;
          option.max = high;
        }
      } else {
        const steps = tens(low, high);
        option.min = steps[0];
        option.max = steps[steps.length - 1];
        option.axisLabel.customValues = steps;
        option.axisTick.customValues = steps;
        option.splitLine.customValues = steps;
      }
      // A narrow range needs no logarithm: from zero on it says more.
      if (!isX && base === 10 && high / low < 5) {
        option.type = 'value';
        for (const part of [option.axisLabel, option.axisTick, option.splitLine]) delete part.customValues;
        delete option.logBase; delete option.max;
        option.min = 0;
      }
    } else if (!isX && low >= 0) {
      option.min = 0;
    } else if (isX) {
      option.scale = true;
    }
    return option;
  }

  // What stands between low and high, drawn under the lines: bars for points, an area for a band.
  function errorBars(series, color) {
    const points = series.points.filter((p) => p.lo !== undefined);
    if (points.length === 0) return [];
    return [{
      type: 'custom', name: series.name, silent: true, z: 1, tooltip: { show: false }, color,
      data: points.map((p) => [p.x, p.lo, p.hi]),
      renderItem(params, api) {
        const low = api.coord([api.value(0), api.value(1)]);
        const high = api.coord([api.value(0), api.value(2)]);
        const stroke = { stroke: color, lineWidth: 1.2, opacity: 0.7, fill: 'none' };
        const cap = (at) => ({ type: 'line', style: stroke, shape: { x1: at[0] - 4, y1: at[1], x2: at[0] + 4, y2: at[1] } });
        return { type: 'group', children: [cap(low), cap(high),
          { type: 'line', style: stroke, shape: { x1: low[0], y1: low[1], x2: high[0], y2: high[1] } }] };
      },
    }];
  }

  function band(series, color) {
    const points = series.points.filter((p) => p.lo !== undefined);
    if (points.length < 2) return [];
    return [{
      type: 'custom', name: series.name, silent: true, z: 1, tooltip: { show: false }, color, clip: true,
      data: [[points[0].x, points[0].lo]],
      renderItem(params, api) {
        const upper = points.map((p) => api.coord([p.x, p.hi]));
        const lower = points.map((p) => api.coord([p.x, p.lo])).reverse();
        return { type: 'polygon', shape: { points: upper.concat(lower) }, style: { fill: color, opacity: 0.13 } };
      },
    }];
  }

  function drawn(series) {
    const color = colorOf(series);
    const bar = series.kind === 'bar';
    const option = {
      // A frontier belongs to its points: one entry of the legend shows and hides both.
      name: series.owner === undefined ? series.name : series.owner, z: 2,
      type: bar ? 'bar' : series.kind === 'points' && !series.joined ? 'scatter' : 'line',
      symbol: series.color < 0 ? 'none' : SYMBOLS[series.color % 8],
      symbolSize: series.kind === 'points' ? 9 : 7,
      showSymbol: !series.dense, step: series.step ? 'end' : false, animation: false,
      lineStyle: { color, width: series.color < 0 || series.joined ? 1.2 : 2, type: DASHES[series.dash || 'solid'] },
      areaStyle: series.area ? { color, opacity: 0.14 } : undefined,
      itemStyle: bar ? { color, borderRadius: [2, 2, 0, 0] } : { color, borderColor: color },
      emphasis: { focus: 'series', itemStyle: { color: 'inherit', borderColor: 'inherit' }, lineStyle: { color: 'inherit', width: 3 } },
      barMaxWidth: 34,
      data: series.points.map((p) => {
        const item = { value: [p.x, p.y], point: p.runs ? p : Object.assign({}, p, { runs: series.runs }) };
        if (p.invalid) item.itemStyle = bar ? { color, opacity: 0.35 } : { color: 'var(--raised)', borderColor: color, borderWidth: 2 };
        // On a line the axis says what the label would.
        if (p.label && series.kind === 'points') {
          item.label = { show: true, formatter: p.label.replace(/[{}|]/g, ' '), position: 'top', color: 'var(--muted)', fontSize: 10 };
        }
        return item;
      }),
      labelLayout: { hideOverlap: true },
    };
    if (series.color < 0 || series.owner !== undefined) {
      Object.assign(option, { silent: true, z: 1, tooltip: { show: false } });
    }
    const under = series.kind === 'band' ? band(series, color) : errorBars(series, color);
    return under.concat([option]);
  }

  function pointLine(chart, item, withX) {
    const p = item.data.point;
    let line = '<i class="key" style="background:' + item.color + '"></i>' + encode(item.seriesName) + ' <b>' + show(p.y) + '</b>';
    if (p.lo !== undefined) line += ' <span>[' + show(p.lo) + ' – ' + show(p.hi) + ']</span>';
    if (withX) line += '<br><span>' + encode(chart.x.label) + '</span> ' + encode(String(typeof p.x === 'number' ? show(p.x) : p.x));
    if (p.label) line += ' <span>' + encode(p.label) + '</span>';
    if (p.runs && p.runs.length) line += '<br><span>' + encode(text.run) + ' ' + encode(p.runs.join(', ')) + '</span>';
    return line;
  }

  function tooltip(chart) {
    const scatter = chart.series.every((s) => s.kind === 'points' || s.color < 0) || chart.tooltip === 'item';
    return {
      trigger: scatter ? 'item' : 'axis', confine: true, appendTo: 'body', className: 'tip',
      backgroundColor: 'var(--raised)', borderColor: 'var(--line)', textStyle: { color: 'var(--fg)', fontSize: 12 },
      formatter(params) {
        const items = (Array.isArray(params) ? params : [params]).filter((i) => i.data && i.data.point && i.seriesType !== 'custom');
        if (items.length === 0) return '';
        if (scatter) return pointLine(chart, items[0], true);
        const x = items[0].data.point.x;
        return '<span>' + encode(chart.x.label) + '</span> <b>' + encode(typeof x === 'number' ? show(x) : String(x)) + '</b><br>' +
          items.map((i) => pointLine(chart, i, false)).join('<br>');
      },
    };
  }

  // About, at 12 pixels; Chinese characters are twice as wide.
  function textWidth(name) {
    const wide = (name.match(/[\u2e80-\uffff]/g) || []).length;
    return 6.6 * (name.length - wide) + 12.5 * wide;
  }

  // The library wraps a legend but does not say how far.
  function legendRows(names, width) {
    let rows = 1;
    let used = 0;
    for (const name of names) {
      const item = 40 + textWidth(name);
      if (used > 0 && used + item > width - 20) {
        rows += 1;
        used = 0;
      }
      used += item;
    }
    return rows;
  }

  // Beside the line, on the side where there is room.
  function marks(chart, least) {
    const place = (m) => (m.x && m.at <= least ? 'insideEndBottom' : 'insideEndTop');
    return {
      silent: true, symbol: 'none', animation: false, emphasis: { disabled: true },
      lineStyle: { color: 'var(--muted)', width: 1, type: [4, 4] },
      label: { color: 'var(--muted)', fontSize: 11, formatter: (p) => p.name },
      data: chart.marks.map((m) => Object.assign({ name: m.label, label: { position: place(m) } }, m.x ? { xAxis: m.at } : { yAxis: m.at })),
    };
  }

  function option(chart, width) {
    // A guide ("ideal") does not stretch the axes: it is cut where the measured part ends.
    const measured = chart.series.filter((s) => s.color >= 0);
    const guided = measured.length > 0 && measured.length < chart.series.length;
    const values = (key) => [].concat.apply([], (guided ? measured : chart.series).map((s) =>
      [].concat.apply([], s.points.map((p) => key === 'x' ? [p.x] : p.lo === undefined ? [p.y] : [p.y, p.lo, p.hi]))))
      .filter((v) => typeof v === 'number');
    const names = chart.series.filter((s) => s.owner === undefined).map((s) => s.name);
    const x = axis(chart.x, values('x'), true);
    let wrapped = false;
    if (x.type === 'category') {
      const room = Math.max(34, (width - 90) / x.data.length - 6);
      Object.assign(x.axisLabel, { interval: 0, hideOverlap: false, overflow: 'break', width: room });
      wrapped = x.data.some((name) => textWidth(name) > room);
      x.nameGap = wrapped ? 42 : 28;
    }
    const top = names.length > 1 ? 16 + 20 * legendRows(names, width) : 18;
    const y = axis(chart.y, values('y'), false);
    // A band is drawn, not known to the axis.
    if ((guided || chart.series.some((s) => s.kind === 'band')) && y.type === 'value') y.max = above(Math.max.apply(null, values('y')));
    const series = [].concat.apply([], chart.series.map(drawn));
    if (chart.marks) series[series.length - 1].markLine = marks(chart, Math.min.apply(null, values('x')));
    return {
      animation: false, textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
      aria: { enabled: true, label: { description: chart.title } },
      legend: { show: names.length > 1, data: names, top: 2, left: 'center', itemGap: 14,
        itemWidth: chart.series.every((s) => s.kind === 'line' || s.kind === 'band') ? 22 : 11, itemHeight: 9,
        textStyle: { color: 'var(--fg)', fontSize: 12 }, inactiveColor: 'var(--line)', inactiveBorderColor: 'var(--line)' },
      grid: { left: 62, right: 24, top, bottom: wrapped ? 60 : 46 },
      tooltip: tooltip(chart),
      xAxis: x,
      yAxis: y,
      series,
    };
  }

  // The picture as a file of its own: the names of colours become colours.
  function save(chart, node) {
    const svg = node.querySelector('svg').cloneNode(true);
    const style = getComputedStyle(node);
    const probe = document.createElement('i');
    node.appendChild(probe);
    const source = new XMLSerializer().serializeToString(svg).replace(/var\((--[a-z0-9]+)\)/g, (all, name) => {
      probe.style.color = 'var(' + name + ')';
      return style.getPropertyValue(name) ? getComputedStyle(probe).color : 'none';
    });
    probe.remove();
    const link = document.createElement('a');
    link.href = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(source);
    link.download = chart.id + '.svg';
    link.click();
  }

  const drawnCharts = [];
  function fit(entry) {
    entry.instance.resize();
    entry.instance.setOption(option(entry.chart, entry.node.clientWidth), true);
    const svg = entry.node.querySelector('svg');
    // Printing scales the picture to the paper's width.
    svg.setAttribute('viewBox', '0 0 ' + entry.node.clientWidth + ' ' + entry.node.clientHeight);
  }
  for (const chart of data.charts) {
    const node = document.getElementById('chart-' + chart.id);
    const instance = echarts.init(node, null, { renderer: 'svg' });
    instance.on('click', (event) => {
      const runs = event.data && event.data.point && event.data.point.runs;
      if (runs && runs.length) location.hash = '#run-' + runs[0];
    });
    const entry = { instance, node, chart };
    fit(entry);
    drawnCharts.push(entry);
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'SVG';
    button.addEventListener('click', () => save(chart, node));
    node.parentElement.querySelector('.figure-tools').prepend(button);
  }
  let timer = 0;
  addEventListener('resize', () => {
    clearTimeout(timer);
    timer = setTimeout(() => drawnCharts.forEach(fit), 120);
  });
  document.documentElement.dataset.charts = String(drawnCharts.length);
})();

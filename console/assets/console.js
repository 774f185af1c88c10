// Keeps the counts of the overview up to date. Without it the page is the same, as of when it was loaded.
(function () {
	"use strict";
	const button = document.getElementById("pause");
	const state = document.getElementById("live-state");
	if (!button || !state || !window.EventSource) {
		return;
	}
	let source = null;
	let paused = false;

	function show(counts) {
		for (const cell of document.querySelectorAll("[data-count]")) {
			const now = counts[cell.getAttribute("data-count")];
			if (now !== undefined && now !== cell.textContent) {
				cell.textContent = now;
				cell.classList.remove("changed");
				void cell.getBoundingClientRect(); // so that the animation begins again
				cell.classList.add("changed");
			}
		}
	}

	function close(says) {
		if (source) {
			source.close();
			source = null;
		}
		state.textContent = says;
	}

	function open() {
		if (source || paused || document.hidden) {
			return;
		}
		source = new EventSource("events");
		source.onopen = function () { state.textContent = "up to date"; };
		source.onmessage = function (event) { show(JSON.parse(event.data)); };
		source.onerror = function () { state.textContent = "not up to date"; };
	}

	button.hidden = false;
	button.addEventListener("click", function () {
		paused = !paused;
		button.setAttribute("aria-pressed", String(paused));
		button.textContent = paused ? "Go on" : "Pause";
		if (paused) {
			close("paused");
		} else {
			open();
		}
	});
	document.addEventListener("visibilitychange", function () {
		if (document.hidden) {
			close("");
		} else {
			open();
		}
	});
	window.addEventListener("pagehide", function () { close(""); });
	open();
})();

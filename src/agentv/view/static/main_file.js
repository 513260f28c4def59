// @ts-check
import { start } from "./app.js";
import { FileSource } from "./file_source.js";

start(new FileSource());

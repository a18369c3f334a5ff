import { sqliteEngine } from "../../../test/store-suite/sqlite-engine.ts";
import { describeStore } from "../../../test/store-suite/suite.ts";

describeStore(sqliteEngine);
